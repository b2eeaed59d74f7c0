"""Batches and requests that are well framed but invalid are refused with an error code, and nothing is stored."""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Callable
from typing import Any

import cramjam
import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch, compress
from tests.scenarios.test_bad_input import end_offset, produce
from tests.scenarios.world import TIMEOUT_MS
from tests.support import oracle
from tests.support.batches import batch, record, varint
from tests.support.raw_client import RawClient, create

NOISE = random.Random(4).randbytes(50)

pytestmark = pytest.mark.wire

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
TRANSACTIONAL, CONTROL = 0x10, 0x20
ANY = None


def zipped(payload: bytes, **fields: int) -> bytes:
    return batch(gzip.compress(payload), attributes=GZIP, **fields)  # type: ignore[arg-type]


def snappy_stream(version: int) -> bytes:
    """Return one record in a xerial snappy stream whose header contains this version."""
    stream = compress(record(), SNAPPY)
    return stream[:8] + version.to_bytes(4, "big", signed=True) + stream[12:]


REFUSED_BY_BOTH = {
    "2^31-1 records in a few bytes": batch(record(), count=2**31 - 1),
    "no record": batch(b"", count=0, last_offset_delta=0),
    "a negative count": batch(record(), count=-1, last_offset_delta=0),
    "more said than there": batch(record(), count=2),
    "less said than there": batch(record() + record(delta=1), count=1),
    "count and last offset delta apart": batch(record(), count=1, last_offset_delta=5),
    "a key of 2^30 bytes": batch(record(key_length=2**30)),
    "a value beyond the end": batch(record(value_length=500)),
    "2^31-1 headers": batch(record(headers=varint(2**31 - 1))),
    "-1 headers": batch(record(headers=varint(-1))),
    "a header without a key": batch(record(headers=varint(1) + varint(-1) + varint(0))),
    "a record longer than the batch": batch(record(length=4_000)),
    "a record of no length": batch(varint(0)),
    "trailing bytes in a record": batch(record(tail=b"xyz")),
    "trailing bytes in the batch": batch(record() + b"xyz"),
    "zipped: more said than there": zipped(record(), count=2),
    "zipped: less said than there": zipped(record() + record(delta=1), count=1),
    "zipped: 2^31-1 headers": zipped(record(headers=varint(2**31 - 1))),
    "a control batch": batch(record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\0"), attributes=CONTROL),
    "an idempotent batch without a sequence": batch(record(), producer=(77, 0, -5)),
}
"""Batches that both brokers refuse with INVALID_RECORD (BAD-15, PRD-11, PRD-15)."""

STRICTER = {
    "a wrong offset delta": (batch(record(delta=3)), {Code.NONE}),
    "zipped: a wrong offset delta": (zipped(record(delta=3)), {Code.UNKNOWN_SERVER_ERROR}),
    "codec 5": (batch(record(), attributes=5), {Code.UNKNOWN_SERVER_ERROR}),
    "codec 7": (batch(record(), attributes=7), {Code.UNKNOWN_SERVER_ERROR}),
    "an empty gzip": (batch(b"", attributes=GZIP), {Code.UNKNOWN_SERVER_ERROR}),
    "a cut gzip": (batch(gzip.compress(record() * 50)[:-12], attributes=GZIP), {Code.UNKNOWN_SERVER_ERROR, Code.INVALID_RECORD}),
    "gzip of a wrong CRC": (batch(gzip.compress(record())[:-8] + bytes(8), attributes=GZIP), {Code.UNKNOWN_SERVER_ERROR}),
    "noise said to be snappy": (batch(NOISE, attributes=SNAPPY), {Code.UNKNOWN_SERVER_ERROR}),
    "noise said to be lz4": (batch(NOISE, attributes=LZ4), {Code.UNKNOWN_SERVER_ERROR}),
    "noise said to be zstd": (batch(NOISE, attributes=ZSTD), {Code.UNKNOWN_SERVER_ERROR}),
    "snappy that says 4 GiB": (batch(b"\xff\xff\xff\xff\x0f" + b"x" * 40, attributes=SNAPPY), ANY),
}
"""Batches that ottla refuses because no consumer could read them, with the codes of Apache Kafka's response; None means any code.
"""


@pytest.mark.entry("BAD-15", "PRD-11", "PRD-15")
@pytest.mark.parametrize("name", REFUSED_BY_BOTH)
def test_produced_records_that_contradict_the_batch_header_are_refused(raw: RawClient, topic: str, name: str) -> None:
    assert produce(raw, topic, REFUSED_BY_BOTH[name]) is Code.INVALID_RECORD
    assert end_offset(raw, topic) == 0


@pytest.mark.entry("BAD-15")
@pytest.mark.parametrize("lengths", [{"key": b"", "key_length": -2}, {"value": b"", "value_length": -3}], ids=["key", "value"])
def test_negative_record_key_or_value_lengths_mean_null(raw: RawClient, topic: str, lengths: dict[str, Any]) -> None:
    assert produce(raw, topic, batch(record(**lengths))) is Code.NONE


@pytest.mark.entry("BAD-15")
@pytest.mark.parametrize("name", STRICTER)
def test_invalid_produced_batches_that_kafka_accepts_are_refused_by_ottla(
    raw: RawClient, topic: str, name: str, target: str
) -> None:
    raw_batch, of_kafka = STRICTER[name]
    code = produce(raw, topic, raw_batch)
    if target == "kafka":
        assert of_kafka is ANY or code in of_kafka
        return
    assert code in (Code.INVALID_RECORD, Code.CORRUPT_MESSAGE)
    assert end_offset(raw, topic) == 0


@pytest.mark.entry("BAD-15")
@pytest.mark.parametrize("version", [-1, 0, 31_232])
def test_snappy_stream_of_another_version_is_read_as_version_1(raw: RawClient, topic: str, version: int) -> None:
    assert produce(raw, topic, batch(snappy_stream(version), attributes=SNAPPY)) is Code.NONE


def identity(raw: RawClient, transactional_id: str) -> Any:
    oracle.coordinator_known(raw, transactional_id, oracle.TRANSACTION)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    return oracle.ready(raw, request, 5, lambda a: [a.error_code])


BOMB = b"\0" * (100 << 20)


@pytest.mark.entry("BAD-05")
@pytest.mark.parametrize(
    ("codec", "shrink"), [(GZIP, gzip.compress), (ZSTD, lambda data: bytes(cramjam.zstd.compress(data)))], ids=["gzip", "zstd"]
)
def test_decompression_bomb_within_the_limits_is_stored_unchanged(
    raw: RawClient, topic: str, target: str, codec: int, shrink: Callable[[bytes], bytes]
) -> None:
    payload = shrink(record(value=BOMB))
    assert len(payload) < 200_000
    assert produce(raw, topic, batch(payload, attributes=codec)) is Code.NONE
    assert end_offset(raw, topic) == 1


@pytest.mark.entry("BAD-16")
@pytest.mark.parametrize(
    ("config", "age_ms"), [("message_timestamp_before_max_ms", 60_000), ("message_timestamp_after_max_ms", -60_000)]
)
def test_produced_timestamps_out_of_bounds_are_refused(raw: RawClient, config: str, age_ms: int) -> None:
    name = f"stamps-{config.split('_')[2]}-{time.time_ns()}"
    create(raw, name, **{config: "10000"})
    now_ms = time.time_ns() // 1_000_000
    assert produce(raw, name, bytes(build_batch([(b"k", b"v")], now_ms - age_ms))) is Code.INVALID_TIMESTAMP
    assert produce(raw, name, bytes(build_batch([(b"k", b"v")], now_ms))) is Code.NONE


@pytest.mark.entry("PRD-14")
@pytest.mark.parametrize("version", [3, 6, 7])
def test_zstd_batch_requires_produce_version_7(raw: RawClient, topic: str, version: int) -> None:
    raw_batch = bytes(build_batch([(b"k", b"v")], 1, compression=ZSTD))
    code = Code.UNSUPPORTED_COMPRESSION_TYPE if version < 7 else Code.NONE
    assert produce(raw, topic, raw_batch, version=version) is code


@pytest.mark.entry("PRD-13")
def test_two_producers_in_one_transactional_request_are_refused(raw: RawClient) -> None:
    name = f"two-{time.time_ns()}"
    create(raw, name, 2, retention_ms="-1")
    options: dict[str, Any] = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    raw_batches = [bytes(build_batch([(None, b"v")], 1, producer_id=50 + i, **options)) for i in range(2)]
    parts = [PartitionProduceData(index=i, records=raw_batch) for i, raw_batch in enumerate(raw_batches)]
    answer = raw.call(
        ProduceRequest(
            transactional_id=name, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name, partition_data=parts)]
        ),
        9,
    )
    assert {p.error_code for p in answer.responses[0].partition_responses} == {Code.INVALID_PRODUCER_ID_MAPPING}
    assert end_offset(raw, name) == 0


@pytest.mark.entry("PRD-13")
@pytest.mark.parametrize("version", [9, 12])
def test_two_epochs_of_a_producer_in_one_request_are_refused(raw: RawClient, version: int) -> None:
    name = f"epochs-{time.time_ns()}"
    create(raw, name, 2, retention_ms="-1")
    pid = identity(raw, name).producer_id
    raw_batches = [batch(record(), attributes=TRANSACTIONAL, producer=(pid, epoch, 0)) for epoch in (0, 5)]
    parts = [PartitionProduceData(index=i, records=raw_batch) for i, raw_batch in enumerate(raw_batches)]
    answer = raw.call(
        ProduceRequest(
            transactional_id=name, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name, partition_data=parts)]
        ),
        version,
    )
    assert {p.error_code for p in answer.responses[0].partition_responses} == {Code.INVALID_PRODUCER_ID_MAPPING}
    assert end_offset(raw, name) == 0


@pytest.mark.entry("BAD-09")
def test_duplicate_partition_in_a_produce_request_is_written_once(raw: RawClient, topic: str) -> None:
    parts = [PartitionProduceData(index=0, records=bytes(build_batch([(None, value)], 1))) for value in (b"first", b"last")]
    answer = raw.call(
        ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(topic, partition_data=parts)],
        ),
        9,
    )
    assert len(answer.responses[0].partition_responses) == 1
    assert end_offset(raw, topic) == 1


@pytest.mark.entry("BAD-09")
def test_duplicate_array_elements_are_refused_only_by_create_topics(raw: RawClient, topic: str) -> None:
    twice = CreateTopicsRequest(
        topics=[
            CreatableTopic(name="twin", num_partitions=1, replication_factor=1),
            CreatableTopic(name="twin", num_partitions=1, replication_factor=1),
        ],
        timeout_ms=TIMEOUT_MS,
    )
    answer = raw.call(twice)
    assert [(t.name, t.error_code) for t in answer.topics] == [("twin", Code.INVALID_REQUEST)]
    part = FetchPartition(partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1 << 20)
    fetched = raw.call(FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic, partitions=[part, part])]), 11)
    assert [p.error_code for t in fetched.responses for p in t.partitions] == [Code.NONE]
    offsets = [
        OffsetCommitRequestPartition(partition_index=0, committed_offset=3),
        OffsetCommitRequestPartition(partition_index=0, committed_offset=4),
    ]
    oracle.coordinator_known(raw, topic, oracle.GROUP)
    request = OffsetCommitRequest(
        group_id=topic, generation_id_or_member_epoch=-1, member_id="", topics=[OffsetCommitRequestTopic(topic, partitions=offsets)]
    )
    committed = oracle.ready(raw, request, 8, lambda a: [p.error_code for p in a.topics[0].partitions])
    assert [p.error_code for p in committed.topics[0].partitions] == [0, 0]
    producer = identity(raw, topic)
    added = raw.call(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=topic,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0, 0])],
        ),
        3,
    )
    assert {p.partition_error_code for p in added.results_by_topic_v3_and_below[0].results_by_partition} == {0}


@pytest.mark.entry("BAD-18")
@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", "x" * 32_000, "nul\0", "\u00e9/.."])
def test_client_ids_are_never_used_as_file_names(raw: RawClient, name: str) -> None:
    assert identity(raw, name).error_code == 0


@pytest.mark.entry("BAD-19")
@pytest.mark.parametrize("max_bytes", [0, 1, 2**31 - 1])
def test_fetch_returns_the_whole_first_batch_for_any_max_bytes(raw: RawClient, topic: str, max_bytes: int) -> None:
    raw_batch = bytes(build_batch([(None, b"v" * 1_000)], 1))
    assert produce(raw, topic, raw_batch) is Code.NONE
    part = FetchPartition(partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=max_bytes)
    answer = raw.call(FetchRequest(max_wait_ms=0, max_bytes=max_bytes, topics=[FetchTopic(topic, partitions=[part])]), 11)
    assert len(bytes(answer.responses[0].partitions[0].records)) == len(raw_batch), "the response has the whole first batch"


@pytest.mark.entry("BAD-19")
def test_fetch_of_many_unknown_partitions_is_answered(raw: RawClient, topic: str) -> None:
    parts = [FetchPartition(partition=i, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1_000) for i in range(10_000)]
    answer = raw.call(FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic, partitions=parts)]), 11)
    codes = [p.error_code for p in answer.responses[0].partitions]
    assert len(codes) == 10_000
    assert set(codes[1:]) == {Code.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.entry("BAD-19")
def test_unknown_fetch_session_is_refused(raw: RawClient) -> None:
    request = FetchRequest(max_wait_ms=0, session_id=123, session_epoch=4, topics=[])
    assert raw.call(request, 11).error_code == Code.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.entry("BAD-10")
def test_describe_topic_partitions_returns_pages(raw: RawClient) -> None:
    name = f"pages-{time.time_ns()}"
    create(raw, name, 5, retention_ms="-1")
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name)], response_partition_limit=2, cursor=None)
    first = raw.call(request, 0)
    assert [p.partition_index for p in first.topics[0].partitions] == [0, 1]
    assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == (name, 2)
    many = raw.call(DescribeTopicPartitionsRequest(topics=[TopicRequest(name)], response_partition_limit=1_000_000, cursor=None), 0)
    assert len(many.topics[0].partitions) == 5


@pytest.mark.entry("BAD-20")
def test_subscription_pattern_with_catastrophic_backtracking_is_answered(raw: RawClient) -> None:
    """With backtracking, matching this pattern would take longer than any client waits."""
    identity(raw, "a" * 40)
    answer = raw.call(ListTransactionsRequest(transactional_id_pattern="(a+)+$b"), 2)
    assert answer.error_code == 0
    assert not answer.transaction_states
