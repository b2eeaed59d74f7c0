"""Malformed input is refused or closes the connection, and does not affect other clients."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from ottla.protocol.errors import Code
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from tests.scenarios.world import TIMEOUT_MS
from tests.support.raw_client import RawClient, create
from tests.support.waiting import logged

pytestmark = pytest.mark.wire

STRICTER = {"array of length -2"}
"""Malformed requests that Apache Kafka accepts and ottla refuses."""


@pytest.fixture
def bystander(bootstrap: str) -> Iterator[RawClient]:
    """A second connection, which malformed input on the first connection must not affect."""
    with RawClient(bootstrap) as client:
        client.call(MetadataRequest([]))
        yield client
        assert client.call(MetadataRequest([])).brokers


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


HEADER = struct.pack(">hhih", 3, 1, 7, -1)


@pytest.mark.entry("BAD-01")
@pytest.mark.parametrize("size", [-1, 0, -(2**31), 104_857_601, 2**31 - 1])
def test_impossible_frame_size_closes_the_connection(raw: RawClient, bystander: RawClient, size: int) -> None:
    raw.send_bytes(struct.pack(">i", size))
    assert raw.is_closed()


@pytest.mark.entry("BAD-04", "BAD-06", "BAD-08")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(struct.pack(">hhih", 999, 0, 1, -1), id="unknown api"),
        pytest.param(struct.pack(">hhih", 3, 99, 1, -1), id="unknown version"),
        pytest.param(struct.pack(">hhih", 0, 2, 1, -1), id="produce 2"),
        pytest.param(b"\0", id="one byte"),
        pytest.param(HEADER, id="no body"),
        pytest.param(HEADER + struct.pack(">i", 2**31 - 1), id="array longer than the rest"),
        pytest.param(HEADER + struct.pack(">i", -2), id="array of length -2"),
        pytest.param(HEADER + struct.pack(">ih", 1, 500) + b"abc", id="string longer than the rest"),
        pytest.param(HEADER + struct.pack(">ih", 1, -2), id="string of length -2"),
        pytest.param(struct.pack(">hhihB", 3, 9, 1, -1, 0) + b"\xff" * 9, id="varint without end"),
        pytest.param(struct.pack(">hhih", 18, 3, 1, -1) + b"\xff\xff\xff\xff\x0f" + b"\1\0" * 1000, id="millions of tags"),
    ],
)
def test_malformed_request_closes_the_connection(
    raw: RawClient, bystander: RawClient, body: bytes, target: str, request: pytest.FixtureRequest
) -> None:
    raw.send_bytes(frame(body))
    case = request.node.callspec.id
    if target == "kafka" and any(name in case for name in STRICTER):
        assert raw.receive_frame()
        return
    assert raw.is_closed()


@pytest.mark.entry("BAD-08")
def test_invalid_utf8_in_requests_is_decoded_like_in_java(raw: RawClient, bystander: RawClient) -> None:
    """confluent-kafka sends uninitialised bytes after an offset's metadata when it commits an offset that it has fetched."""
    raw.send_bytes(frame(HEADER + struct.pack(">ih", 1, 3) + b"a\xff\xfe"))
    answer = raw.receive_frame()
    assert struct.pack(">hh", Code.INVALID_TOPIC_EXCEPTION, 7) + "a\ufffd\ufffd".encode() in answer
    assert raw.call(MetadataRequest([])).brokers


@pytest.mark.entry("BAD-08")
def test_trailing_bytes_of_a_request_are_ignored(raw: RawClient, bystander: RawClient) -> None:
    """librdkafka 2.16 sends three extra bytes in a Metadata request for all topics."""
    raw.send_bytes(frame(HEADER + struct.pack(">i", 0) + b"trailing"))
    assert raw.receive_frame()[:4] == struct.pack(">i", 7)
    assert raw.call(MetadataRequest([])).brokers


@pytest.mark.entry("BAD-08")
def test_random_bytes_on_a_connection_do_not_affect_other_clients(bootstrap: str, bystander: RawClient) -> None:
    rng = random.Random(5)
    for _ in range(60):
        with RawClient(bootstrap) as client:
            key = rng.choice([0, 1, 2, 3, 8, 9, 11, 18, 22, 24, 26, 28])
            body = struct.pack(">hhih", key, rng.randrange(14), 1, -1) + rng.randbytes(rng.randrange(200))
            client.send_bytes(frame(body))


@pytest.mark.entry("BAD-06")
def test_unsupported_api_versions_request_is_answered_in_version_zero(raw: RawClient) -> None:
    raw.send_bytes(frame(struct.pack(">hhih", 18, 77, 5, -1) + b"\0whatever it says then"))
    answer = raw.receive_frame()
    correlation_id, code, count, key, low, high = struct.unpack(">ihihhh", answer)
    assert (correlation_id, code, count, key, low, high) == (5, Code.UNSUPPORTED_VERSION, 1, 18, 0, 5)
    assert raw.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4).error_code == 0


@pytest.mark.entry("BAD-07")
def test_api_versions_with_an_invalid_client_software_name_is_refused(raw: RawClient) -> None:
    assert (
        raw.call(ApiVersionsRequest(client_software_name="bad name!", client_software_version="1"), 3).error_code
        == Code.INVALID_REQUEST
    )


@pytest.mark.entry("BAD-21")
def test_client_of_another_cluster_must_rebootstrap(bootstrap: str, raw: RawClient) -> None:
    metadata = raw.call(MetadataRequest([]))
    cluster_id, node_id = metadata.cluster_id, metadata.brokers[0].node_id
    newest = max(api.max_version for api in raw.call(ApiVersionsRequest(), 0).api_keys if api.api_key == 18)
    if newest < 5:
        pytest.skip("this Apache Kafka does not offer ApiVersions in version 5")
    for cluster, node, code in (
        (None, -1, Code.NONE),
        (cluster_id, node_id, Code.NONE),
        (cluster_id, node_id + 1, Code.REBOOTSTRAP_REQUIRED),
        (cluster_id, -2, Code.REBOOTSTRAP_REQUIRED),
        ("another", node_id, Code.REBOOTSTRAP_REQUIRED),
        ("", node_id, Code.REBOOTSTRAP_REQUIRED),
        (cluster_id, -1, Code.INVALID_REQUEST),
        ("another", -1, Code.INVALID_REQUEST),
        (None, node_id, Code.INVALID_REQUEST),
    ):
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1", cluster_id=cluster, node_id=node)
        with RawClient(bootstrap) as client:
            answer = client.call(request, 5)
            assert (answer.error_code, bool(answer.api_keys)) == (code, code is Code.NONE), (cluster, node)
            # Older versions of the request contain no cluster id, so the connection stays open.
            assert client.call(request, 4).error_code == Code.NONE


@pytest.mark.entry("NET-12")
def test_requests_split_and_joined_at_any_byte_are_read(raw: RawClient) -> None:
    from ottla.protocol.codec import request_frame

    frames = b"".join(request_frame(3, 9, i, "c", MetadataRequest([])) for i in range(50))
    rng = random.Random(2)
    while frames:
        size = rng.randrange(1, 40)
        raw.send_bytes(frames[:size])
        frames = frames[size:]
    assert [int.from_bytes(raw.receive_frame()[:4], "big") for _ in range(50)] == list(range(50))


def produce(client: RawClient, topic: str, records: bytes | None, *, acks: int = -1, version: int = 9) -> Code:
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(topic, partition_data=[PartitionProduceData(index=0, records=records)])],
    )
    return Code(client.call(request, version).responses[0].partition_responses[0].error_code)


def end_offset(client: RawClient, topic: str) -> int:
    from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    answer = client.call(
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)]
                )
            ],
        )
    )
    return int(answer.topics[0].partitions[0].offset)


@pytest.mark.entry("PRD-14", "PRD-16", "IDM-16")
def test_invalid_produced_batches_are_refused_with_their_error_codes_and_not_stored(
    raw: RawClient, topic: str, target: str
) -> None:
    good = bytes(build_batch([(b"k", b"v")], 1))
    wrong_crc = good[:-1] + bytes([good[-1] ^ 1])
    cases = [
        *([] if target == "kafka" else [(None, Code.INVALID_RECORD)]),  # Apache Kafka does not respond to null records.
        (b"", Code.INVALID_RECORD),
        (wrong_crc, Code.CORRUPT_MESSAGE),
        (good[:16] + b"\1" + good[17:], Code.INVALID_RECORD),
        (good[:16] + b"\x63" + good[17:], Code.CORRUPT_MESSAGE),
        (good + good, Code.INVALID_RECORD),
        (good[:30], Code.INVALID_RECORD),
    ]
    for records, code in cases:
        assert produce(raw, topic, records) is code
    assert produce(raw, topic, good, acks=2) is Code.INVALID_REQUIRED_ACKS
    transactional = bytes(build_batch([(b"k", b"v")], 1, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True))
    # Kafka checks the transactional id before acks.
    for acks in (-1, 2):
        assert produce(raw, topic, transactional, acks=acks) is Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert produce(raw, "no-such-topic", good) is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert end_offset(raw, topic) == 0
    assert produce(raw, topic, good) is Code.NONE
    assert end_offset(raw, topic) == 1


@pytest.mark.entry("BAD-17")
@pytest.mark.parametrize("name", ["..", ".", "a/b", "x" * 250, "bad name", "nul\0", "é", ""])
def test_invalid_topic_names_are_refused(raw: RawClient, name: str) -> None:
    answer = raw.call(CreateTopicsRequest([CreatableTopic(name=name, num_partitions=1, replication_factor=1)]))
    assert answer.topics[0].error_code == Code.INVALID_TOPIC_EXCEPTION


@pytest.mark.entry("PRD-21")
def test_large_request_frame_is_read_completely(raw: RawClient, topic: str) -> None:
    batch = bytes(build_batch([(b"k", random.Random(1).randbytes(900_000))], 1))
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(topic, partition_data=[PartitionProduceData(index=0, records=batch)])],
    )
    for _ in range(3):
        assert raw.call(request, 9).responses[0].partition_responses[0].error_code == 0
    from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[
            FetchTopic(
                topic, partitions=[FetchPartition(partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1)]
            )
        ],
    )
    records = raw.call(fetch, 11).responses[0].partitions[0].records
    assert bytes(records)[21:] == batch[21:]


@pytest.mark.entry("NET-12")
def test_pipelined_responses_keep_their_order(raw: RawClient, topic: str) -> None:
    from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    parked = FetchRequest(
        max_wait_ms=300,
        min_bytes=1,
        topics=[FetchTopic(topic, partitions=[FetchPartition(partition=0, current_leader_epoch=-1, fetch_offset=0)])],
    )
    sent = [raw.send(parked, 11), raw.send(MetadataRequest([]), 9), raw.send(parked, 11), raw.send(MetadataRequest([]), 9)]
    kinds = [type(raw.receive(s)).__name__ for s in sent]
    assert kinds == ["FetchResponse", "MetadataResponse"] * 2


@pytest.mark.entry("RDC-06")
def test_parked_fetch_is_answered_when_records_arrive(bootstrap: str, raw: RawClient, topic: str) -> None:
    from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    asked = FetchTopic(topic, partitions=[FetchPartition(partition_max_bytes=1 << 20)])
    # The fetch's maximum wait is longer than the client's timeout, so a response proves that new records ended the wait.
    fetch = FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=[asked])
    sent = raw.send(fetch, 11)
    with RawClient(bootstrap) as other:
        assert produce(other, topic, bytes(build_batch([(None, b"v")], 1))) is Code.NONE
    assert raw.receive(sent).responses[0].partitions[0].records


def test_produce_on_a_full_disk_is_refused_and_not_acknowledged() -> None:
    """A limit on the file size simulates a full disk: the write fails with EFBIG, as it would with ENOSPC."""
    import resource

    big = bytes(build_batch([(None, b"x" * 100_000)], 1))
    with Broker() as broker, RawClient(broker.bootstrap) as client:
        create(client, "t")
        assert broker.pid is not None
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (250_000, resource.RLIM_INFINITY))
        codes = [produce(client, "t", big) for _ in range(4)]
        assert codes == [Code.NONE, Code.NONE, Code.KAFKA_STORAGE_ERROR, Code.KAFKA_STORAGE_ERROR]
        assert end_offset(client, "t") == 2
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert produce(client, "t", big) is Code.NONE
        assert end_offset(client, "t") == 3
        assert logged(broker, "disk_writes_failed")


def resident_bytes(pid: int) -> int:
    fields = (Path("/proc") / str(pid) / "statm").read_text().split()
    return int(fields[1]) * 4096


@pytest.mark.entry("BAD-03")
def test_request_with_many_empty_array_elements_uses_little_memory() -> None:
    """A Metadata request of thirty megabytes for thirty million topics without a name."""
    count = 30_000_000
    head = struct.pack(">hhihB", 3, 9, 7, -1, 0)
    claimed, coded = count + 1, bytearray()
    while claimed > 0x7F:
        coded.append(claimed & 0x7F | 0x80)
        claimed >>= 7
    coded.append(claimed)
    body = head + bytes(coded) + b"\1\0" * (count // 2)
    with Broker() as broker, RawClient(broker.bootstrap) as client, RawClient(broker.bootstrap) as bystander:
        assert broker.pid is not None
        before = resident_bytes(broker.pid)
        client.send_bytes(frame(body))
        assert client.is_closed()
        assert bystander.call(MetadataRequest([])).brokers
        assert resident_bytes(broker.pid) - before < 3 * len(body)


@pytest.mark.entry("BAD-14")
def test_connections_beyond_max_connections_per_ip_are_closed() -> None:
    with Broker(settings={"max.connections.per.ip": 5}) as broker:
        held = [RawClient(broker.bootstrap) for _ in range(5)]
        assert held[0].call(MetadataRequest([])).brokers
        with RawClient(broker.bootstrap) as sixth:
            assert sixth.is_closed()
        assert held[0].call(MetadataRequest([])).brokers
        for client in held:
            client.close()


@pytest.mark.entry("BAD-14")
def test_idle_connections_are_closed_so_that_new_clients_are_accepted() -> None:
    with Broker(settings={"connections.max.idle.ms": 500, "max.connections.per.ip": 5}) as broker:
        held = [RawClient(broker.bootstrap) for _ in range(5)]
        assert all(client.is_closed() for client in held)
        for client in held:
            client.close()
        with RawClient(broker.bootstrap) as again:
            assert again.call(MetadataRequest([])).brokers


@pytest.mark.entry("BAD-14")
def test_listener_accepts_connections_again_when_file_descriptors_are_free() -> None:
    import resource

    with Broker() as broker:
        assert broker.pid is not None
        with RawClient(broker.bootstrap) as first:
            assert first.call(MetadataRequest([])).brokers
            used = len(list((Path("/proc") / str(broker.pid) / "fd").iterdir()))
            soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (used + 3, hard))
            crowd = [RawClient(broker.bootstrap) for _ in range(12)]
            assert first.call(MetadataRequest([])).brokers, "a connected client is still served"
            for client in crowd:
                client.close()
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (soft, hard))
            with RawClient(broker.bootstrap) as late:
                assert late.call(MetadataRequest([])).brokers


@pytest.mark.entry("NET-12")
def test_half_open_slow_and_interrupted_connections_do_not_affect_other_clients(bootstrap: str, bystander: RawClient) -> None:
    from ottla.protocol.codec import request_frame

    whole = request_frame(3, 9, 1, "slow", MetadataRequest([]))
    with RawClient(bootstrap) as slow, RawClient(bootstrap) as cut, RawClient(bootstrap) as silent:
        cut.send_bytes(whole[: len(whole) // 2])
        cut.close()
        for byte in whole:
            slow.send_bytes(bytes([byte]))
        assert slow.receive_frame()
        for _ in range(1_000):
            silent.send_bytes(whole)
        assert bystander.call(MetadataRequest([])).brokers
        assert [silent.receive_frame()[:4] for _ in range(1_000)] == [b"\0\0\0\1"] * 1_000
