"""The requests of a test: produce, consume and expect records, and manage topics, groups and configs.

These functions are methods of `ottla.Broker` and `ottla.Cluster`, and of the broker of ``--ottla-bootstrap``. They need no client
library, connect as a super user, and are not hit by faults unless a fault names the client id ``ottla-handle``. All timeouts are in
seconds of the machine's clock, also if the broker's clock is manual. `ottla.Broker.aio` has coroutines for the functions that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from ottla.testing.cluster_queries import TIMEOUT_S
from ottla.testing.cluster_queries import wait_for as wait_until_true

if TYPE_CHECKING:
    from ottla.client.admin.transactions import TransactionDescription
    from ottla.client.records.producing import WrittenRecord
    from ottla.client.records.reading import Isolation
    from ottla.client.records.record import ConsumedRecord
    from ottla.testing.cluster_queries import Questions
    from ottla.testing.serialization import Record, RecordHeaders, Serialized
    from ottla.testing.topic_reader import Consumed
    from ottla.testing.transactions import Transaction

T = TypeVar("T")

Value = bytes | str | Mapping[str, Any] | Sequence[Any] | int | float | None
"""A record's value: bytes, text as UTF-8, None for a tombstone, all else as JSON."""
Key = bytes | str | Mapping[str, Any] | int | None
ConfigValue = str | int | float | bool | None
"""The value of a config. None removes the value, so that the default applies."""


class Handle(Protocol):
    """An object whose methods are the functions of this module, such as `ottla.Broker`."""

    _questions: Questions


@overload
def produce(
    self: Handle,
    topic: str,
    values: Value | Record | Iterable[Value | Record],
    *,
    key: Key | Callable[[Any], Key] = None,
    headers: RecordHeaders | None = None,
    partition: int | None = None,
    timestamp: int | datetime | None = None,
) -> list[WrittenRecord]: ...


@overload
def produce(
    self: Handle,
    topic: str,
    values: Iterable[T],
    *,
    serializer: Callable[[T], Serialized],
    key: Key | Callable[[T], Key] = None,
    headers: RecordHeaders | None = None,
    partition: int | None = None,
    timestamp: int | datetime | None = None,
) -> list[WrittenRecord]: ...


def produce(
    self: Handle,
    topic: str,
    values: Any,
    *,
    key: Any = None,
    headers: RecordHeaders | None = None,
    partition: int | None = None,
    timestamp: int | datetime | None = None,
    serializer: Callable[[Any], Serialized] | None = None,
) -> list[WrittenRecord]:
    """Write a value, or a list of values, and wait until all are acknowledged. Returns partition and offset of each.

    Bytes are written as they are, text as UTF-8, None as a tombstone, and all else as JSON. With ``serializer`` its result is
    written. ``key`` is one key for all records or a function of the value. A `Record` may have its own key, headers, partition and
    timestamp. Without a partition the key selects it as in Java's producer. ``timestamp`` is a time with time zone, or
    milliseconds.

    The topic must exist, or the broker creates it (``auto.create.topics.enable``).
    """
    from ottla.testing.serialization import new_records

    records = new_records(values, key=key, headers=headers, partition=partition, timestamp=timestamp, serializer=serializer)
    return self._questions.produce(topic, records)


def transaction(self: Handle, transactional_id: str | None = None, *, timeout_s: float = 60.0) -> Transaction:
    """Return a transaction, for a ``with`` block that commits it, or aborts it after an exception.

    Its `produce` and `commit_offsets` work like those of `ottla.Broker`. When the block begins, an open transaction of the same
    ``transactional_id`` is aborted, and its producer is fenced. The default is a new id. ``timeout_s`` is the transaction timeout
    in seconds of the broker's clock.
    """
    from ottla.testing.transactions import Transaction

    return Transaction(self._questions, transactional_id, timeout_s)


@overload
def consume(
    self: Handle, topic: str, n: int | None = None, *, timeout_s: float = TIMEOUT_S, partition: int | None = None, start: int = 0
) -> list[Consumed[bytes]]: ...


@overload
def consume(
    self: Handle,
    topic: str,
    n: int | None = None,
    *,
    deserializer: Callable[[bytes], T],
    timeout_s: float = TIMEOUT_S,
    partition: int | None = None,
    start: int = 0,
) -> list[Consumed[T]]: ...


def consume(
    self: Handle,
    topic: str,
    n: int | None = None,
    *,
    deserializer: Callable[[bytes], Any] = bytes,
    timeout_s: float = TIMEOUT_S,
    partition: int | None = None,
    start: int = 0,
) -> list[Consumed[Any]]:
    """Wait until a topic has ``n`` committed records, and return the first ``n``; without ``n`` return all current records.

    Each call begins at offset ``start`` of each partition, or of ``partition``. Records of several partitions are ordered by
    timestamp. ``deserializer`` is applied to the values, such as ``str`` (UTF-8) or ``json.loads``; tombstones stay None.

    Raises TimeoutError, which says how many records are there, and why others are not committed.
    """
    __tracebackhide__ = True
    from ottla.testing.topic_reader import TopicReader, consumed

    with TopicReader(self._questions, topic, partition, start) as reader:
        records = reader.wait_for_count(n, timeout_s)
    return [consumed(record, deserializer) for record in records]


def expect(
    self: Handle,
    topic: str,
    values: Value | Record | Iterable[Any],
    *,
    in_any_order: bool = False,
    timeout_s: float = TIMEOUT_S,
    partition: int | None = None,
    start: int = 0,
    deserializer: Callable[[bytes], Any] | None = None,
) -> None:
    """Wait until a topic has these committed records and no others. Raises AssertionError with the difference.

    Expected bytes are compared with a record's bytes, text with its UTF-8, and all else with its JSON. With ``deserializer``,
    expected values are compared with its results. If a `Record` sets key, headers, partition or timestamp, these are compared, too.

    Fails at once if an unexpected record is there, and after ``timeout_s`` if a record is missing. Several records of a topic with
    several partitions have no common order: give ``in_any_order=True`` or a ``partition``.
    """
    __tracebackhide__ = True
    from ottla.testing.expectation import Expectation
    from ottla.testing.serialization import each
    from ottla.testing.topic_reader import TopicReader

    expectation = Expectation(each(values), in_any_order=in_any_order, deserializer=deserializer)
    has_order = in_any_order or len(expectation.expected) < 2
    with TopicReader(self._questions, topic, partition, start) as reader:
        problem = reader.wait_for_expected(expectation, timeout_s, has_order=has_order)
    if problem is not None:
        raise AssertionError(problem)


def create_topic(
    self: Handle,
    name: str,
    partitions: int | None = None,
    configs: Mapping[str, ConfigValue] | None = None,
    *,
    replication_factor: int = -1,
) -> None:
    """Create a topic. By default it has ``num.partitions`` partitions and ``default.replication.factor`` replicas.

    This and the following methods raise `ottla.client.ClientError`.
    """
    texts = {name: text for name, value in (configs or {}).items() if (text := config_text(value)) is not None}
    self._questions.create_topic(name, partitions, texts, replication_factor=replication_factor)


def delete_topic(self: Handle, name: str) -> None:
    """Delete a topic and its records."""
    with self._questions.cluster() as client:
        client.delete_topic(name)


def delete_group(self: Handle, group: str) -> None:
    """Delete a group and its offsets. The group must have no members."""
    from ottla.client.admin.groups import delete

    with self._questions.cluster() as client:
        delete(client.brokers, group)


@overload
def alter_config(self: Handle, topic: str, configs: Mapping[str, ConfigValue]) -> None: ...


@overload
def alter_config(self: Handle, *, group: str, configs: Mapping[str, ConfigValue]) -> None: ...


@overload
def alter_config(self: Handle, *, configs: Mapping[str, ConfigValue]) -> None: ...


def alter_config(
    self: Handle, topic: str | None = None, configs: Mapping[str, ConfigValue] | None = None, *, group: str | None = None
) -> None:
    """Set configs of a topic, of a ``group``, or, if neither is given, of all brokers. The value None restores the default."""
    from ottla.client.admin.topics import ConfigKind, set_configs

    if topic is not None and group is not None:
        raise TypeError("topic and group exclude each other; give one of them")
    if not isinstance(configs, Mapping):
        raise TypeError(f'expected configs such as {{"retention.ms": 60_000}}, not {configs!r}')
    kind = ConfigKind.TOPIC if topic is not None else ConfigKind.GROUP if group is not None else ConfigKind.BROKER
    with self._questions.cluster() as client:
        set_configs(client.brokers, kind, topic or group or "", {name: config_text(value) for name, value in configs.items()})


def commit_offsets(self: Handle, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Set the offsets of a group, by topic and partition. The group must have no members; an unknown group is created."""
    from ottla.client.admin.groups import commit

    with self._questions.cluster() as client:
        commit(client.brokers, group, offsets)


def records(self: Handle, topic: str, isolation: Isolation = "committed") -> list[ConsumedRecord]:
    """Return the current committed records, aborted records, or all records of a topic, ordered by partition and offset."""
    return self._questions.records(topic, isolation)


def describe_transaction(self: Handle, transactional_id: str) -> TransactionDescription:
    """Return the coordinator's state of a transactional id."""
    return self._questions.describe_transaction(transactional_id)


def lag(self: Handle, group: str) -> dict[tuple[str, int], int]:
    """Return the lag of a group by topic and partition, up to the high watermark and including transaction markers. Without a
    committed offset the lag of a member's partition counts from the log start."""
    return self._questions.lag(group)


def wait_for(self: Handle, condition: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
    """Wait until ``condition`` returns a true value, and return that value. Raises TimeoutError with the last value.

    ``condition`` is called again if it raises because a topic, group or transactional id does not exist.
    """
    return wait_until_true(condition, timeout_s)


def config_text(value: ConfigValue) -> str | None:
    """Return the value of a config as Kafka writes it."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
