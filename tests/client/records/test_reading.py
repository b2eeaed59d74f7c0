"""Reading records: the isolation of committed, aborted and open transactions, the range of a read, and limits of a batch."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import ClientError, KafkaAnswered, TooMuch
from ottla.client.records import reading
from ottla.client.records import record as client_records
from ottla.client.records.producing import murmur2, produce
from ottla.client.records.record import NewRecord, decode_batch, encode_batch
from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from ottla.protocol.records import (
    EndTxnMarker,
    assign,
    batches,
    build_batch,
    build_marker,
    read_header,
)
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata

ALONE = metadata(nodes={1: "kafka"}, leaders={"t": [1]})


def batch(offset: int, *values: bytes, producer: int = -1, transactional: bool = False, compression: int = 0) -> bytes:
    made = build_batch(
        [(None, value) for value in values],
        1_000,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
        compression=compression,
    )
    assign(made, offset, 0)
    return bytes(made)


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    made = build_marker(EndTxnMarker(producer_id=producer, producer_epoch=0, commit=commit, coordinator_epoch=0), 2_000)
    assign(made, offset, 0)
    return bytes(made)


LOG = [
    batch(0, b"plain"),
    batch(1, b"a1", b"a2", producer=7, transactional=True),
    batch(3, b"c1", producer=8, transactional=True),
    marker(4, 7, commit=False),
    batch(5, b"c2", producer=7, transactional=True),
    marker(6, 8, commit=True),
    marker(7, 7, commit=True),
    batch(8, b"open", producer=9, transactional=True),
]
ABORTED = [AbortedTransaction(producer_id=7, first_offset=1)]
STABLE, END = 8, 9


class OnePartition:
    """A partition's log, and a scripted broker that returns at most ``at_once`` batches per fetch."""

    def __init__(
        self, log: Iterable[bytes] = LOG, *, at_once: int = 2, start: int = 0, stable: int = STABLE, end: int = END
    ) -> None:
        self.log, self.at_once = list(log), at_once
        self.start, self.stable, self.end = start, stable, end
        self.broker = ScriptedBroker(answers={"Metadata": [ALONE], "ListOffsets": self.offsets, "Fetch": self.fetch})

    def offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        asked = request.topics[0].partitions[0]
        offset = {-2: self.start, -1: self.stable if request.isolation_level else self.end}[asked.timestamp]
        partitions = [ListOffsetsPartitionResponse(partition_index=0, offset=offset)]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])

    def fetch(self, request: FetchRequest) -> FetchResponse:
        at = request.topics[0].partitions[0].fetch_offset
        limit = self.stable if request.isolation_level else self.end
        log = [b for b in self.log if read_header(b).last_offset >= at and read_header(b).base_offset < limit][: self.at_once]
        data = PartitionData(partition_index=0, records=b"".join(log))
        if not self.start <= at <= self.end:
            data = PartitionData(partition_index=0, error_code=Code.OFFSET_OUT_OF_RANGE)
        elif request.isolation_level:
            last = read_header(log[-1]).last_offset if log else -1
            data.aborted_transactions = [a for a in ABORTED if a.first_offset <= last and at <= 4]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    def read(self, isolation: reading.Isolation, **options: object) -> list[tuple[int, bytes | str | None]]:
        records = reading.read(ScriptedCluster(kafka=self.broker).brokers(), "t", isolation, **options)  # type: ignore[arg-type]
        return [(r.offset, r.control or r.value) for r in records]


COMMITTED = [(0, b"plain"), (3, b"c1"), (5, b"c2")]


@pytest.mark.parametrize("at_once", [1, 2, 3, 8])
def test_isolation_level_of_a_read_selects_committed_aborted_or_all_records(at_once: int) -> None:
    partition = OnePartition(at_once=at_once)
    assert partition.read("committed") == COMMITTED
    assert partition.read("aborted") == [(1, b"a1"), (2, b"a2")]
    assert partition.read("all") == [(0, b"plain"), (1, b"a1"), (2, b"a2"), (3, b"c1"), (5, b"c2"), (8, b"open")]


def test_record_read_returns_transaction_markers_on_request() -> None:
    partition = OnePartition()
    assert partition.read("aborted", show_control=True)[-1] == (4, "ABORT")
    assert partition.read("committed", show_control=True) == [*COMMITTED, (6, "COMMIT"), (7, "COMMIT")]
    assert [offset for offset, _ in partition.read("all", show_control=True)] == list(range(9))


def test_record_read_may_begin_and_end_inside_batches() -> None:
    assert OnePartition().read("all", start={0: 2}, end={0: 3}) == [(2, b"a2")]
    assert OnePartition().read("aborted", start={0: 2}) == [(2, b"a2")]
    assert OnePartition().read("all", start={0: END}) == []
    assert OnePartition().read("committed", end={0: 100}) == COMMITTED


def test_record_read_reports_missing_offsets() -> None:
    with pytest.raises(KafkaAnswered, match=r"OFFSET_OUT_OF_RANGE .*offset 2 is before the log's start") as raised:
        OnePartition(start=5).read("all", start={0: 2})
    assert raised.value.code == Code.OFFSET_OUT_OF_RANGE


def test_record_read_beyond_the_record_limit_is_refused() -> None:
    with pytest.raises(TooMuch, match="more than 2 matching records"):
        OnePartition().read("all", max_records=2)


def test_record_read_decodes_records_lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are decoded one by one, because a small compressed batch may contain millions of records."""
    decoded: list[int] = []
    decode = client_records._record
    monkeypatch.setattr(client_records, "_record", lambda *given: decoded.append(0) or decode(*given))
    partition = OnePartition(log=[batch(0, *[b"small"] * 1_000, compression=1)], end=1_000)
    taken = reading.stream(ScriptedCluster(kafka=partition.broker).brokers(), "t", "all")
    assert [record.offset for record in islice(taken, 3)] == [0, 1, 2]
    assert len(decoded) == 3


def test_repeated_empty_fetch_responses_end_the_record_read_with_an_error() -> None:
    partition = OnePartition(log=[])
    with pytest.raises(ClientError, match="the broker returned no records of t-0 from offset 0"):
        partition.read("all")
    assert partition.broker.names().count("Fetch") == reading.FRUITLESS_ROUNDS


def test_record_read_with_an_unknown_isolation_level_is_refused() -> None:
    with pytest.raises(ClientError, match="is not one of committed, aborted, all"):
        OnePartition().read("serializable")  # type: ignore[arg-type]


def test_record_read_reports_a_damaged_batch() -> None:
    broken = bytearray(LOG[0])
    broken[-1] ^= 1
    with pytest.raises(ClientError, match="the batch at offset 0 of t-0 is damaged"):
        OnePartition(log=[bytes(broken)], end=1).read("all")


@pytest.mark.parametrize("compression", range(5))
def test_record_read_decompresses_batches(compression: int) -> None:
    partition = OnePartition(log=[batch(0, b"one", b"two", compression=compression)], end=2)
    assert partition.read("all") == [(0, b"one"), (1, b"two")]


def test_record_read_refuses_a_decompression_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.records.record.MAX_INFLATED_BYTES", 1_000)
    with pytest.raises(TooMuch, match="inflates to more than"):
        OnePartition(log=[batch(0, bytes(10_000), compression=1)], end=1).read("all")


record = st.builds(
    NewRecord,
    value=st.none() | st.binary(max_size=200),
    key=st.none() | st.binary(max_size=20),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    timestamp_ms=st.none() | st.integers(0, 1 << 42),
)


@pytest.mark.smoke
@given(st.lists(record, min_size=1, max_size=20))
def test_encoded_record_batches_round_trip(records: list[NewRecord]) -> None:
    encoded = encode_batch(records, 5_000, producer_id=1, producer_epoch=0, base_sequence=0)
    ((_, header),) = batches(encoded)
    decoded = decode_batch("t", 0, encoded, header)
    assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in decoded] == [
        (r.key, r.value, list(r.headers), 5_000 if r.timestamp_ms is None else r.timestamp_ms) for r in records
    ]


def test_record_keys_are_partitioned_like_by_the_java_producer() -> None:
    """The expected hashes are from Kafka's UtilsTest.testMurmur2."""
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    }
    assert {key: murmur2(key) - (1 << 32 if murmur2(key) >> 31 else 0) for key in known} == known


def test_client_producer_treats_a_duplicate_sequence_error_as_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.records.producing.BATCH_RECORDS", 2)
    sequences: list[int] = []
    codes = iter((0, Code.DUPLICATE_SEQUENCE_NUMBER, 0))

    def take(request: ProduceRequest) -> ProduceResponse:
        raw = request.topic_data[0].partition_data[0].records
        assert raw is not None
        sequences.append(read_header(raw).base_sequence)
        answered = PartitionProduceResponse(index=0, error_code=next(codes), base_offset=0)
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[answered])])

    producing = {"InitProducerId": [InitProducerIdResponse(producer_id=5, producer_epoch=0)], "Produce": take}
    broker = ScriptedBroker(answers={"Metadata": [ALONE], **producing})
    assert produce(ScriptedCluster(kafka=broker).brokers(), "t", [NewRecord(b"%d" % i) for i in range(5)]) == {0: 5}
    assert sequences == [0, 2, 4]


def test_record_read_of_an_unknown_partition_is_reported() -> None:
    broker = ScriptedBroker(answers={"Metadata": [ALONE], "InitProducerId": [InitProducerIdResponse(producer_id=5)]})
    with pytest.raises(ClientError, match="unknown partition 3 of topic 't': it has 1, counted from 0"):
        produce(ScriptedCluster(kafka=broker).brokers(), "t", [NewRecord(b"", partition=3)])


def test_record_read_refuses_a_batch_with_too_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of a few KiB may decompress to millions of records, and each record becomes an object in memory."""
    encoded = encode_batch([NewRecord(b"")] * 3, 5_000)
    ((_, header),) = batches(encoded)
    monkeypatch.setattr("ottla.client.records.record.MAX_BATCH_RECORDS", 3)
    assert len(decode_batch("t", 0, encoded, header)) == 3
    monkeypatch.setattr("ottla.client.records.record.MAX_BATCH_RECORDS", 2)
    with pytest.raises(TooMuch, match="the batch at offset 0 of t-0 has more than 2 records"):
        decode_batch("t", 0, encoded, header)
