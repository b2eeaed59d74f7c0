"""The generator of protocol/messages: ``python -m ottla.protocol.codegen`` after a schema has changed."""
