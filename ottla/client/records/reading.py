"""Reads topics up to their current end, or without end.

Aborted records are recognised as in Kafka's consumer (CompletedFetch): the response of a read_committed fetch lists the aborted
transactions. A producer's transactional batches are aborted from the first offset of such a transaction up to the abort marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from ottla.client.admin.offsets import EARLIEST, LATEST, by_leader, list_offsets
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError, TooMuch, check
from ottla.client.records.record import ConsumedRecord, decode_batch, decoded, is_abort_marker
from ottla.protocol.errors import Code
from ottla.protocol.inflating import Allowance
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.records import BatchHeader, batches

Isolation = Literal["committed", "aborted", "all"]
ISOLATIONS: Final[tuple[Isolation, ...]] = ("committed", "aborted", "all")
FETCH_BYTES: Final = 16 << 20
"""Maximum size of a Fetch response, in bytes, for all partitions together. A single batch may be larger."""
PARTITION_BYTES: Final = 4 << 20
MAX_RECORDS: Final = 1_000_000
"""Maximum number of records that `read` returns. `stream` has no limit."""
FETCH_WAIT_MS: Final = 500
"""Time, in ms, that a broker waits for new data (fetch.max.wait.ms)."""
FRUITLESS_ROUNDS: Final = 10
"""Number of consecutive fetches without progress after which reading up to an end offset fails."""
_NO_SESSION: Final = -1

Positions = Mapping[int, int]
"""Offsets by partition."""


def read(
    brokers: BrokerConnections,
    topic: str,
    isolation: Isolation = "committed",
    *,
    partitions: Iterable[int] | None = None,
    start: Positions | None = None,
    end: Positions | None = None,
    show_control: bool = False,
    max_records: int = MAX_RECORDS,
) -> list[ConsumedRecord]:
    """Return the records of `stream`, ordered by partition and offset. Raises `TooMuch` for more than ``max_records``."""
    records: list[ConsumedRecord] = []
    for record in stream(brokers, topic, isolation, partitions=partitions, start=start, end=end, show_control=show_control):
        if len(records) == max_records:
            raise TooMuch(f"topic {topic!r} has more than {max_records:,} matching records; give partitions or offsets")
        records.append(record)
    return sorted(records, key=lambda record: (record.partition, record.offset))


def stream(
    brokers: BrokerConnections,
    topic: str,
    isolation: Isolation = "committed",
    *,
    partitions: Iterable[int] | None = None,
    start: Positions | None = None,
    end: Positions | None = None,
    show_control: bool = False,
    follow: bool = False,
    allowance: Allowance | None = None,
) -> Iterator[ConsumedRecord]:
    """Yield records as they are fetched, in order within each partition; with ``follow`` also future records, without end.

    ``isolation`` is ``committed`` for committed records up to the last stable offset, ``aborted`` for the aborted records in this
    range, ``all`` for every record up to the high watermark. ``start`` and ``end`` (exclusive) are offsets by partition. By default
    all current records are read.

    ``allowance`` limits the decompressed bytes of all batches together; without it each batch has a limit. A batch above the limit
    raises `BatchTooLarge`.

    Raises `KafkaAnswered` if a response has an error, and `ClientError` if the broker stops returning records before the end.
    """
    if isolation not in ISOLATIONS:
        raise ClientError(f"isolation {isolation!r} is not one of {', '.join(ISOLATIONS)}")
    indexes = brokers.partitions(topic) if partitions is None else sorted(set(partitions))
    position = {**list_offsets(brokers, topic, indexes, EARLIEST), **{p: o for p, o in (start or {}).items() if p in indexes}}
    ends: dict[int, int] | None = None
    if not follow:
        last = list_offsets(brokers, topic, indexes, LATEST, committed=isolation != "all")
        ends = {index: min(last[index], (end or {}).get(index, last[index])) for index in indexes}
    fruitless = 0
    while True:
        wanted = {index: at for index, at in position.items() if ends is None or at < ends[index]}
        if not wanted:
            return
        answered = fetch(brokers, topic, wanted, committed=isolation != "all", max_wait_ms=FETCH_WAIT_MS)
        for index, data in answered.items():
            limit = None if ends is None else ends[index]
            yield from _records_of(topic, data, position, limit, isolation, allowance, show_control=show_control)
        fruitless = 0 if follow or any(position[index] > at for index, at in wanted.items()) else fruitless + 1
        if fruitless == FRUITLESS_ROUNDS:
            where = ", ".join(f"{topic}-{index} from offset {at}" for index, at in sorted(wanted.items())[:10])
            raise ClientError(f"the broker returned no records of {where}, although the log has more; read from another offset")


def fetch(
    brokers: BrokerConnections, topic: str, positions: Positions, *, committed: bool, max_wait_ms: int
) -> dict[int, PartitionData]:
    """Send a Fetch to each leader. Returns the fetched data by partition. Raises `KafkaAnswered` if a response has an error."""

    def attempt() -> dict[int, PartitionData]:
        answered: dict[int, PartitionData] = {}
        for connection, mine in by_leader(brokers.leaders(topic, positions)):
            partitions = [
                FetchPartition(partition=index, fetch_offset=positions[index], partition_max_bytes=PARTITION_BYTES)
                for index in mine
            ]
            request = FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                isolation_level=int(committed),
                session_id=0,
                session_epoch=_NO_SESSION,
                topics=[FetchTopic(topic=topic, partitions=partitions)],
            )
            answer = brokers.ask(connection, request)
            check(f"reading topic {topic!r}", answer.error_code)
            for data in (data for part in answer.responses for data in part.partitions):
                _check(topic, data, positions[data.partition_index])
                answered[data.partition_index] = data
        return answered

    return brokers.until_final(f"reading topic {topic!r}", attempt, also=(Code.UNKNOWN_TOPIC_OR_PARTITION,))


def _check(topic: str, data: PartitionData, offset: int) -> None:
    message = None
    if data.error_code == Code.OFFSET_OUT_OF_RANGE:
        message = f"offset {offset} is before the log's start or after its end; read from beginning or end"
    check(f"reading {topic}-{data.partition_index}", data.error_code, message)


def _records_of(
    topic: str,
    data: PartitionData,
    position: dict[int, int],
    end: int | None,
    isolation: Isolation,
    allowance: Allowance | None,
    *,
    show_control: bool,
) -> Iterator[ConsumedRecord]:
    """Yield the records of a response that match ``isolation``, from the partition's ``position`` to before ``end``, and advance
    the position."""
    index = data.partition_index
    for batch, header, takes in classified(topic, data, isolation):
        if takes and header.next_offset > position[index] and (show_control or not header.is_control):
            records = decoded(topic, index, batch, header, allowance)
            yield from (r for r in records if r.offset >= position[index] and (end is None or r.offset < end))
        position[index] = max(position[index], header.next_offset)
        if end is not None and position[index] >= end:
            break


def classified(topic: str, data: PartitionData, isolation: Isolation) -> Iterator[tuple[memoryview, BatchHeader, bool]]:
    """Yield each batch of a response to a fetch, and whether it matches ``isolation``. The marker of a transaction matches if its
    data batches match. Only control batches are decoded, to find abort markers."""
    starts = sorted((a.first_offset, a.producer_id) for a in data.aborted_transactions or [])
    aborting: set[int] = set()
    raw = memoryview(data.records or b"")
    for at, header in batches(raw):
        while starts and starts[0][0] <= header.last_offset:
            aborting.add(starts.pop(0)[1])
        is_aborted = header.is_transactional and header.producer_id in aborting
        batch = raw[at : at + header.size_bytes]
        yield batch, header, isolation == "all" or is_aborted == (isolation == "aborted")
        # An abort marker ends the producer's aborted batches.
        if header.is_control and is_abort_marker(header, decode_batch(topic, data.partition_index, batch, header)):
            aborting.discard(header.producer_id)
