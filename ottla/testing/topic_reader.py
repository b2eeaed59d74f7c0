"""Reads the committed records of a topic until there are enough of them, and explains why records are missing."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from ottla.client.errors import KafkaAnswered
from ottla.client.real_time import monotonic_s
from ottla.client.wording import counted
from ottla.protocol.errors import Code
from ottla.testing.cluster_queries import pause_until
from ottla.testing.serialization import deserialize, shown

if TYPE_CHECKING:
    from ottla.client.records.record import ConsumedRecord
    from ottla.testing.cluster_queries import Questions
    from ottla.testing.expectation import Difference, Expectation

T = TypeVar("T")

SHOWN_RECORDS = 5
"""Maximum number of records that are shown in the error of a timeout."""


@dataclass(slots=True, frozen=True)
class Consumed(Generic[T]):
    """A record that was read from a topic. ``value`` is what the deserializer returned, or None for a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: T | None
    headers: list[tuple[str, bytes | None]]


def consumed(record: ConsumedRecord, deserializer: Callable[[bytes], T]) -> Consumed[T]:
    """Deserialize a record. Raises ValueError, which names the record."""
    try:
        value = deserialize(deserializer, record.value)
    except Exception as error:  # a deserializer may raise errors of any type
        raise ValueError(
            f"the value {shown(record.value)} of {record.topic}-{record.partition} at offset {record.offset} cannot be"
            f" deserialized: {error}"
        ) from error
    return Consumed(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=value,
        headers=record.headers,
    )


class TopicReader:
    """The committed records of a topic from the offset ``start`` of each partition, or of one partition."""

    def __init__(self, questions: Questions, topic: str, partition: int | None, start: int) -> None:
        self._topic = topic
        self._partitions = None if partition is None else [partition]
        self._start = start
        self._client = questions.cluster()
        self._records: dict[int, list[ConsumedRecord]] = {}
        self._exists = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client.close()

    def wait_for_count(self, count: int | None, timeout_s: float) -> list[ConsumedRecord]:
        """Return the first ``count`` records; all current records for None. Raises TimeoutError."""
        deadline_s = monotonic_s() + timeout_s
        while True:
            records = self._read()
            if count is None and self._exists:
                return records
            if count is not None and len(records) >= count:
                return records[:count]
            if not pause_until(deadline_s):
                break
        if count is None:
            raise TimeoutError(f"topic {self._topic!r} does not exist after {timeout_s:g} s")
        those = "".join(f"\n  {_described(record)}" for record in records[-SHOWN_RECORDS:])
        raise TimeoutError(
            f"{self._what()} has {len(records):,} of {count:,} records after {timeout_s:g} s{self._hidden()}{those and ':'}{those}"
        )

    def wait_for_expected(self, expectation: Expectation, timeout_s: float, *, has_order: bool) -> str | None:
        """Wait for the expected records. Returns a description of the difference, or None. Raises ValueError if the topic has
        several partitions, and so no order, unless ``has_order``."""
        began_s = monotonic_s()
        while True:
            records = self._read()
            if self._exists and not has_order and self._partitions is None:
                self._check_order()
                has_order = True
            difference = expectation.compare(records)
            if difference is None and (self._exists or expectation.expected):
                return None
            is_final = not expectation.expected or (difference is not None and difference.is_final)
            if is_final or not pause_until(began_s + timeout_s):
                break
        count = len(expectation.expected)
        if not self._exists:
            return f"expected {counted(count, 'record')} in topic {self._topic!r}, but it does not exist"
        assert difference is not None
        head = (
            f"expected {counted(count, 'record')} in {self._what()}, found {len(records):,} after {monotonic_s() - began_s:.1f} s"
        )
        return "\n".join([head + self._hidden(), *difference.lines, _summary(difference)])

    def _check_order(self) -> None:
        count = len(self._client.brokers.partitions(self._topic))
        if count > 1:
            raise ValueError(
                f"topic {self._topic!r} has {count} partitions, whose records have no common order: give in_any_order=True or a"
                " partition"
            )

    def _read(self) -> list[ConsumedRecord]:
        """Read the new records. Returns all records read so far, ordered by timestamp, and within each partition by offset."""
        start = {index: records[-1].offset + 1 for index, records in self._records.items()}
        try:
            indexes = self._partitions or self._client.brokers.partitions(self._topic)
            positions = {index: start.get(index, self._start) for index in indexes if index in start or self._start}
            for record in self._client.records(self._topic, partitions=indexes, start=positions):
                self._records.setdefault(record.partition, []).append(record)
            self._exists = True
        except KafkaAnswered as error:
            if error.code != Code.UNKNOWN_TOPIC_OR_PARTITION or self._exists:
                raise
        return list(heapq.merge(*self._records.values(), key=lambda record: record.timestamp_ms))

    def _what(self) -> str:
        return f"topic {self._topic!r}" if self._partitions is None else f"{self._topic}-{self._partitions[0]}"

    def _hidden(self) -> str:
        """Return a text with the number of records that are not committed."""
        if not self._exists:
            return ", and does not exist"
        everything = [
            record
            for record in self._client.records(self._topic, "all", partitions=self._partitions)
            if record.offset >= self._start
        ]
        aborted = len(self._client.records(self._topic, "aborted", partitions=self._partitions))
        pending = len(everything) - aborted - sum(map(len, self._records.values()))
        parts = [f"{aborted:,} aborted"] * (aborted > 0) + [f"{pending:,} after an open transaction began"] * (pending > 0)
        return f" (not committed: {', '.join(parts)})" if parts else ""


def _summary(difference: Difference) -> str:
    missing, unexpected = len(difference.missing), len(difference.unexpected)
    return f"{missing:,} missing (-), {unexpected:,} unexpected (+)"


def _described(record: ConsumedRecord) -> str:
    return f"{record.partition} at {record.offset}  {shown(record.value)}"
