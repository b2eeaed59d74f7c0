"""Collects the history of a transactional id from the coordinator's log and the partitions' markers.

Kafka has no request for the history, but each change of state is a record in ``__transaction_state``, until compaction removes
all but the newest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import BatchTooLarge, KafkaAnswered, TooMuch, UnknownTopic
from ottla.client.explain.event_order import in_order
from ottla.client.records import reading
from ottla.client.records.record import ConsumedRecord
from ottla.client.wording import counted
from ottla.protocol.codec import decode_record
from ottla.protocol.errors import Code, DecodeError
from ottla.protocol.inflating import Allowance
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.messages import transaction_log_key, transaction_log_value
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TxnState

_DECIDED: Final = {TxnState.PREPARE_COMMIT.label: "commit", TxnState.PREPARE_ABORT.label: "abort"}
_COMPLETE: Final = {TxnState.COMPLETE_COMMIT.label: "committed", TxnState.COMPLETE_ABORT.label: "aborted"}
PRODUCER_LEAD_MS: Final = 120_000
"""Maximum time, in ms, from a record's timestamp to the beginning of its transaction.

A producer sets the timestamp and then buffers the record for at most delivery.timeout.ms, by default 2 min."""
MAX_DATA_RECORDS: Final = 200_000
"""Maximum number of records that are read from one topic."""


@dataclass(slots=True, frozen=True)
class Logged:
    """A record of ``__transaction_state``. ``state`` is None for a tombstone, which the coordinator writes when the id expires."""

    offset: int
    time_ms: int
    state: str | None
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = 0
    start_ms: int = -1
    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(slots=True, frozen=True)
class TimelineEvent:
    """An event in the history of a transactional id.

    ``where`` is the log and the offset of the record that shows the event; ``producer`` is producer id and epoch.
    """

    time_ms: int
    kind: str
    what: str
    where: str
    producer: tuple[int, int]
    partitions: list[TopicPartition] = field(default_factory=list)


def logged(transactional_id: str, key: bytes | None, value: bytes | None, offset: int, time_ms: int) -> Logged | None:
    """Decode a record of ``__transaction_state``. Returns None for another transactional id and for an invalid record."""
    if key is None:
        return None
    try:
        if decode_record(transaction_log_key, key).transactional_id != transactional_id:
            return None
        if value is None:
            return Logged(offset=offset, time_ms=time_ms, state=None)
        said = decode_record(transaction_log_value, value)
    except DecodeError:
        return None
    return Logged(
        offset=offset,
        time_ms=time_ms,
        state=_state_name(said.transaction_status),
        producer_id=said.producer_id,
        producer_epoch=said.producer_epoch,
        timeout_ms=said.transaction_timeout_ms,
        start_ms=said.transaction_start_timestamp_ms,
        partitions=frozenset((t.topic, p) for t in said.transaction_partitions or () for p in t.partition_ids),
    )


def _state_name(status: int) -> str:
    return TxnState(status).label if status in set(TxnState) else str(status)


def events(states: Iterable[Logged], log_name: str, data: Iterable[ConsumedRecord] = ()) -> list[TimelineEvent]:
    """Return state changes, written data and markers, ordered by time."""
    happened: list[TimelineEvent] = []
    before: Logged | None = None
    for state in states:
        happened += _changes(before, state, f"{log_name} at {state.offset:,}")
        before = state
    joined = [event for event in happened if event.kind in ("begin", "add")]
    return in_order(happened, [[_after_joining(event, joined) for event in one] for one in _in_partitions(data)])


def _after_joining(event: TimelineEvent, joined: list[TimelineEvent]) -> TimelineEvent:
    """Return the event. Written data gets the time at which its partition was added, if that is later: a producer sets the
    timestamps of records before it adds the partition."""
    if event.kind != "data":
        return event
    earlier = [j for j in joined if j.time_ms <= event.time_ms and event.partitions[0] in j.partitions]
    later = [j for j in joined if 0 < j.time_ms - event.time_ms <= PRODUCER_LEAD_MS and event.partitions[0] in j.partitions]
    if later and (not earlier or later[0].time_ms - event.time_ms < event.time_ms - earlier[-1].time_ms):
        return replace(event, time_ms=later[0].time_ms)
    return event


def _changes(before: Logged | None, state: Logged, where: str) -> list[TimelineEvent]:
    producer = (state.producer_id, state.producer_epoch)

    def event(kind: str, what: str, partitions: Iterable[TopicPartition] = ()) -> TimelineEvent:
        return TimelineEvent(state.time_ms, kind, what, where, producer, sorted(partitions))

    if state.state is None:
        return [TimelineEvent(state.time_ms, "expire", "the id expires", where, (-1, -1))]
    happened = []
    known = frozenset[TopicPartition]()
    if before is not None and before.state == TxnState.ONGOING.label and before.producer_id == state.producer_id:
        known = before.partitions
    if state.state == TxnState.EMPTY.label:
        fenced = before is not None and before.state is not None
        what = "a new producer owns the id; earlier producers are fenced" if fenced else "a producer gets the id"
        happened.append(event("init", f"{what} (timeout {state.timeout_ms:,} ms)"))
    elif state.state == TxnState.ONGOING.label:
        kind, what = ("add", "adds partitions") if known else ("begin", "a transaction begins")
        happened.append(event(kind, what, state.partitions - known))
    elif state.state in _DECIDED:
        if state.partitions - known:
            happened.append(event("add", "adds partitions", state.partitions - known))
        happened.append(event("decide", f"{_DECIDED[state.state]} is decided and final", state.partitions))
    elif state.state in _COMPLETE:
        took = "" if before is None or before.start_ms < 0 else f", {max(0, state.time_ms - before.start_ms):,} ms after it began"
        happened.append(event("complete", f"{_COMPLETE[state.state]}, every marker is written{took}"))
    else:
        happened.append(event("complete", state.state))
    return happened


def _in_partitions(records: Iterable[ConsumedRecord]) -> Iterable[list[TimelineEvent]]:
    """Return the events of each partition. Each marker is an event; a producer's records between two of its markers are one
    event."""
    by_partition: dict[TopicPartition, list[ConsumedRecord]] = {}
    for record in sorted(records, key=lambda r: (r.topic, r.partition, r.offset)):
        by_partition.setdefault((record.topic, record.partition), []).append(record)
    return map(_in_partition, by_partition.values())


def _in_partition(records: Iterable[ConsumedRecord]) -> list[TimelineEvent]:
    happened: list[TimelineEvent] = []
    written: dict[int, list[ConsumedRecord]] = {}
    for record in records:
        if record.control is None:
            written.setdefault(record.producer_id, []).append(record)
            continue
        happened += _written(written.pop(record.producer_id, []))
        happened.append(
            TimelineEvent(
                record.timestamp_ms,
                "marker",
                f"{record.control.lower()} marker",
                f"{record.topic}:{record.partition} at {record.offset:,}",
                (record.producer_id, record.producer_epoch),
                [(record.topic, record.partition)],
            )
        )
    for left in written.values():
        happened += _written(left)
    return happened


def _written(records: list[ConsumedRecord]) -> list[TimelineEvent]:
    if not records:
        return []
    first, last = records[0], records[-1]
    where = f"{first.topic}:{first.partition} at {first.offset:,}" + (f" to {last.offset:,}" if last is not first else "")
    what = f"{counted(len(records), 'record')} written"
    producer = (first.producer_id, first.producer_epoch)
    return [TimelineEvent(first.timestamp_ms, "data", what, where, producer, [(first.topic, first.partition)])]


@dataclass(slots=True, frozen=True)
class TimelineLimits:
    """Limits of a timeline. ``log_offsets`` is the number of offsets to read from the end of the coordinator's log; None reads all.

    ``data_records`` and ``data_bytes`` (decompressed) are limits per topic; a topic that exceeds a limit is omitted. Without
    ``data_bytes`` only the size of each batch is limited.
    """

    log_offsets: int | None = None
    data_records: int = MAX_DATA_RECORDS
    data_bytes: int | None = None


@dataclass(slots=True, frozen=True)
class Timeline:
    """The events of a transactional id. Each line of ``unread`` names a log, or a part of it, that was not read because of a
    limit."""

    events: list[TimelineEvent]
    unread: list[str]


def timeline(brokers: BrokerConnections, transactional_id: str) -> list[TimelineEvent]:
    """Return the events of a transactional id. Raises `KafkaAnswered` if the coordinator's log does not contain the id."""
    return newest_timeline(brokers, transactional_id, TimelineLimits()).events


def newest_timeline(brokers: BrokerConnections, transactional_id: str, limits: TimelineLimits) -> Timeline:
    """Return the events of a transactional id within the limits. Raises `KafkaAnswered` if the whole log was read and does not
    contain the id."""
    try:
        count = len(brokers.partitions(TRANSACTION_TOPIC))
    except UnknownTopic:
        count = 0
    index = partition_for(transactional_id, count) if count else 0
    states: list[Logged] = []
    unread: list[str] = []
    if count:
        start, first = _log_start(brokers, index, limits.log_offsets)
        if start > first:
            unread.append(f"{TRANSACTION_TOPIC}:{index} before offset {start:,}")
        for record in reading.stream(brokers, TRANSACTION_TOPIC, "all", partitions=[index], start={index: start}):
            state = logged(transactional_id, record.key, record.value, record.offset, record.timestamp_ms)
            if state is not None:
                states.append(state)
    if not states and not unread:
        message = "ottla txn list shows the transactional ids"
        raise KafkaAnswered(f"unknown transactional id {transactional_id!r}", Code.TRANSACTIONAL_ID_NOT_FOUND, message)
    data = _data(brokers, states, limits, unread) if states else []
    return Timeline(events(states, f"{TRANSACTION_TOPIC}:{index}", data), unread)


def _log_start(brokers: BrokerConnections, index: int, log_offsets: int | None) -> tuple[int, int]:
    """Return the offset from which the coordinator's log is read, and the log start offset."""
    first = list_offsets(brokers, TRANSACTION_TOPIC, [index], EARLIEST)[index]
    if log_offsets is None:
        return first, first
    return max(first, list_offsets(brokers, TRANSACTION_TOPIC, [index], LATEST)[index] - log_offsets), first


def _data(brokers: BrokerConnections, states: list[Logged], limits: TimelineLimits, unread: list[str]) -> list[ConsumedRecord]:
    """Return the records that the producers in ``states`` have written since the first of these states.

    A topic that exceeds a limit is omitted and named in ``unread``.
    """
    producers = {state.producer_id for state in states}
    since_ms = min((s.start_ms for s in states if s.start_ms >= 0), default=states[0].time_ms)
    written: list[ConsumedRecord] = []
    for topic in sorted({topic for state in states for topic, _ in state.partitions}):
        indexes = sorted({index for state in states for name, index in state.partitions if name == topic})
        try:
            start = list_offsets(brokers, topic, indexes, max(0, since_ms - PRODUCER_LEAD_MS))
            allowance = None if limits.data_bytes is None else Allowance(limits.data_bytes)
            found = reading.stream(brokers, topic, "all", partitions=indexes, start=start, show_control=True, allowance=allowance)
            records = _of_producers(found, producers, limits.data_records)
        except TooMuch as error:
            limit = f"{limits.data_records:,} records"
            if isinstance(error, BatchTooLarge) and limits.data_bytes is not None:
                limit = f"{limits.data_bytes >> 20} MiB"
            unread.append(f"topic {topic}, which has more than {limit} since the first of these events")
            continue
        except KafkaAnswered:
            # The topic was deleted. The timeline still has the state changes from the coordinator's log.
            continue
        written += sorted(records, key=lambda record: (record.partition, record.offset))
    return written


def _of_producers(records: Iterable[ConsumedRecord], producers: Collection[int], max_records: int) -> list[ConsumedRecord]:
    """Return the transactional records and markers of ``producers``, without key and value to save memory. Raises `TooMuch` if
    ``records`` has more than ``max_records``."""
    written: list[ConsumedRecord] = []
    for count, record in enumerate(records):
        if count == max_records:
            raise TooMuch(f"the log has more than {max_records:,} records")
        if record.producer_id in producers and (record.transactional or record.control):
            written.append(replace(record, key=None, value=None, headers=[]))
    return written
