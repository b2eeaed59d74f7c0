"""What a coordinator's command gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class LogRecord(msgspec.Struct, gc=False, frozen=True):
    """One record for the coordinator's log; a value of None is a tombstone."""

    key: bytes | None
    value: bytes | None


Waiter = Callable[[Any], None]
"""Takes the answer that a parked request waits for."""


class Result(msgspec.Struct, Generic[T]):
    """Records to append and replay, and the answers that hold once they are in the log.

    ``replies`` go to parked requests after the append; where it fails they get ``failed_replies`` instead.
    """

    response: T
    records: list[LogRecord] = []
    replies: list[tuple[Waiter, Any]] = []
    failed_replies: list[tuple[Waiter, Any]] = []


def java_hash(text: str) -> int:
    """String.hashCode of Java, over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(raw), 2):
        value = (31 * value + (raw[i] << 8 | raw[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partition_count: int) -> int:
    """The coordinator partition of a group or transactional id (Utils.abs(key.hashCode) % count)."""
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
