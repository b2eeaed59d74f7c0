"""The errors of the schema registry's API: Confluent's error codes, each with a message of one line."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RegistryCode(IntEnum):
    """Error codes of Confluent's API (``io.confluent.kafka.schemaregistry.rest.exceptions.Errors``)."""

    UNAUTHORIZED = 401
    FORBIDDEN = 403
    NOT_FOUND = 404
    METHOD_NOT_ALLOWED = 405
    INCOMPATIBLE = 409
    UNPROCESSABLE = 422
    BUSY = 503
    SUBJECT_NOT_FOUND = 40401
    VERSION_NOT_FOUND = 40402
    SCHEMA_NOT_FOUND = 40403
    SUBJECT_SOFT_DELETED = 40404
    SUBJECT_NOT_SOFT_DELETED = 40405
    VERSION_SOFT_DELETED = 40406
    VERSION_NOT_SOFT_DELETED = 40407
    SUBJECT_LEVEL_NOT_FOUND = 40408
    SUBJECT_MODE_NOT_FOUND = 40409
    INVALID_SCHEMA = 42201
    INVALID_VERSION = 42202
    INVALID_LEVEL = 42203
    INVALID_MODE = 42204
    NOT_PERMITTED = 42205
    REFERENCE_EXISTS = 42206
    ID_CONFLICT = 42207
    INVALID_SUBJECT = 42208
    TOO_MANY_SCHEMAS = 42209
    STORE_FAILED = 50001


_CODES_WITH_STATUS: Final = 10_000
"""Error codes of at least this number begin with the HTTP status, such as 40401; smaller codes are HTTP statuses."""


class RegistryError(Exception):
    """Raised to refuse a request: ``code`` is Confluent's error code, and ``text`` is the message, one line."""

    def __init__(self, code: RegistryCode, text: str) -> None:
        super().__init__(text)
        self.code = code

    @property
    def status(self) -> int:
        return int(self.code) if self.code < _CODES_WITH_STATUS else int(self.code) // 100
