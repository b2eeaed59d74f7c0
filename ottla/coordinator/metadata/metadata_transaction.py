"""A transaction in the cluster's metadata log (KIP-868). Its records take effect at its end, and never after an abort."""

from __future__ import annotations

from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import DecodeError


class MetadataTransaction:
    """Holds the records of the open transaction, with their offsets."""

    def __init__(self) -> None:
        self._records: list[tuple[LogRecord, int]] | None = None

    def begin(self) -> None:
        self._records = []

    def takes(self, record: LogRecord, offset: int) -> bool:
        """Hold the record if a transaction is open. Returns whether the record was held."""
        if self._records is None:
            return False
        self._records.append((record, offset))
        return True

    def end(self) -> list[tuple[LogRecord, int]]:
        """End the transaction and return its records. Raises DecodeError if none is open."""
        if self._records is None:
            raise DecodeError("the record ends a metadata transaction that has not begun")
        records, self._records = self._records, None
        return records
