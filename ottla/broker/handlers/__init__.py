"""The handlers: one module for each API, with the API's versions, declaration and handler."""
