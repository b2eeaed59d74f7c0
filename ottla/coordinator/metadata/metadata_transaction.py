"""A transaction in the cluster's metadata log (KIP-868): what its records say is in force when it ends, or never."""

from __future__ import annotations

from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import DecodeError


class MetadataTransaction:
    """Keeps the records of the transaction that is open, with their offsets."""

    def __init__(self) -> None:
        self._records: list[tuple[LogRecord, int]] | None = None

    def begin(self) -> None:
        self._records = []

    def takes(self, record: LogRecord, offset: int) -> bool:
        """Whether a transaction is open and keeps the record."""
        if self._records is None:
            return False
        self._records.append((record, offset))
        return True

    def end(self) -> list[tuple[LogRecord, int]]:
        """The records of the transaction, which has ended. Raises DecodeError where none is open."""
        if self._records is None:
            raise DecodeError("a record that ends a transaction which has not begun")
        records, self._records = self._records, None
        return records
