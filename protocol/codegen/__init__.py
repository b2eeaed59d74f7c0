"""The generator of protocol/messages: ``python -m protocol.codegen`` after a schema has changed."""
