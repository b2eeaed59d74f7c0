"""Limits on the memory and time that misbehaving clients cost a broker, measured from outside of its process.

Each test sends one request, or uses one kind of client, that once cost gigabytes or seconds. It measures the highest resident
memory of the process and how long another connection waits.
"""

from __future__ import annotations

import contextlib
import random
import re
import resource
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla import Broker
from ottla.protocol.codec import request_frame
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from tests.support.raw_client import RawClient, create
from tests.support.waiting import logged, wait_until
from tests.wire.secured import SecuredBroker

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.alone]

MIB = 1 << 20
RESPONSE_BUDGET_BYTES = 64 * MIB
REQUEST_BUDGET_BYTES = 64 * MIB
SAMPLE_S = 0.01
HANGS_S = 60.0
"""Time limit of every client: a client that waits longer has hung."""
LONGEST_WAIT_S = 1.0
"""Longest time that another client may wait. The event loop is blocked for at most 20 ms; the rest allows for a busy machine."""
SMALL_RECEIVE_BUFFER_BYTES = 4_096


def resident_bytes(broker: Broker | SecuredBroker) -> int:
    fields = Path(f"/proc/{broker.pid}/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


def metric(url: str, name: str) -> int:
    """Return the sum of the metrics whose names and labels match a regular expression."""
    with urllib.request.urlopen(url) as page:
        metrics = page.read().decode()
    return sum(int(float(n)) for n in re.findall(rf"^{name} (\S+)", metrics, re.MULTILINE))


def closed_for_responses(broker: Broker) -> int:
    """Return the number of connections that were closed because other clients waited for response memory."""
    return metric(broker.ready["metrics"], r"ottla_queued_closed_connections\{[^}]*response[^}]*\}")


class Watch:
    """Context manager that samples the broker's memory and the response times of another connection.

    On exit it raises any error that occurred in its threads.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._guarded, args=(work,)) for work in (self._sample, self._beat)]
        self._errors: list[Exception] = []
        self.before_bytes = resident_bytes(broker)
        self.highest_bytes = 0
        self.longest_wait_s = 0.0

    @property
    def grown_bytes(self) -> int:
        return self.highest_bytes - self.before_bytes

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._errors.append(error)

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self.highest_bytes = max(self.highest_bytes, resident_bytes(self._broker))

    def _beat(self) -> None:
        with RawClient(self._broker.bootstrap) as client:
            while not self._stop.wait(SAMPLE_S):
                began_s = time.monotonic()
                client.call(HeartbeatRequest(group_id="nobody", generation_id=1, member_id="m"), 4)
                self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - began_s)

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise ExceptionGroup("while the broker was watched", self._errors)
        assert self.highest_bytes, "the memory of the broker was not measured"
        assert 0 < self.longest_wait_s < HANGS_S


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {
        "queued.max.request.bytes": REQUEST_BUDGET_BYTES,
        "ottla.queued.max.response.bytes": RESPONSE_BUDGET_BYTES,
        "ottla.metrics.port": 0,
        "ottla.response.stall.ms": 500,
        "ottla.request.stall.ms": 500,
    }
    with Broker(settings=settings) as broker:
        yield broker
        broker.stop()
        assert not [line for line in broker.logs if '"level": "error"' in line]


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[[], socket.socket]]:
    """Return a function that opens sockets with a small receive buffer."""
    host, _, port = broker.bootstrap.rpartition(":")
    sockets: list[socket.socket] = []

    def connect() -> socket.socket:
        connected = socket.socket()
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_RECEIVE_BUFFER_BYTES)
        connected.connect((host, int(port)))
        sockets.append(connected)
        return connected

    yield connect
    for connected in sockets:
        connected.close()


def fill(broker: Broker | SecuredBroker, size_bytes: int) -> None:
    """Create a topic ``t`` with one partition and `size_bytes` of records."""
    rng = random.Random(1)
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        for _ in range(size_bytes // 900_000):
            batch = build_batch([(b"k", rng.randbytes(900_000))], time.time_ns() // 1_000_000)
            data = [TopicProduceData("t", partition_data=[PartitionProduceData(index=0, records=batch)])]
            assert (
                client.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=data), 9)
                .responses[0]
                .partition_responses[0]
                .error_code
                == 0
            )


def fetch_frame(max_wait_ms: int = 0) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 * MIB)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    return request_frame(1, 11, 1, "c", FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=50 * MIB, topics=topics))


@pytest.mark.parametrize("frame", [fetch_frame(), request_frame(3, 12, 1, "c", MetadataRequest(None))], ids=["Fetch", "Metadata"])
def test_client_that_does_not_read_responses_occupies_limited_broker_memory(
    broker: Broker, connect: Callable[[], socket.socket], frame: bytes
) -> None:
    fill(broker, 20 * MIB)
    with RawClient(broker.bootstrap) as client:
        client.call(MetadataRequest([MetadataRequestTopic(name=f"topic-{n}") for n in range(2_000)]), 12)
    with Watch(broker) as watch:
        connect().sendall(frame * 500)
        time.sleep(3)
    assert watch.grown_bytes < 40 * MIB


def test_many_clients_that_do_not_read_responses_occupy_limited_broker_memory(
    broker: Broker, connect: Callable[[], socket.socket]
) -> None:
    fill(broker, 20 * MIB)
    with Watch(broker) as watch:
        for _ in range(40):
            connect().sendall(fetch_frame() * 3)
        # One log line covers all connections of an address that are closed for the same reason, so the metric is counted.
        logged(broker, "other connections wait for")
        wait_until(lambda: closed_for_responses(broker) >= 5)
    assert watch.grown_bytes < RESPONSE_BUDGET_BYTES + 64 * MIB


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_unread_response_counts_in_the_memory_of_responses(tmp_path: Path, listener: str) -> None:
    """TLS has encrypted the whole response and passed it to the socket's transport."""
    broker = SecuredBroker(tmp_path, {"ssl.client.auth": "none", "ottla.metrics.port": "0"})
    host, port = broker.address(listener)
    try:
        fill(broker, 6 * MIB)
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_RECEIVE_BUFFER_BYTES)
            raw.connect((host, port))
            with raw if listener == "PLAINTEXT" else broker.context().wrap_socket(raw, server_hostname="localhost") as client:
                client.sendall(fetch_frame())
                size = int.from_bytes(client.recv(4))
                assert size > 5 * MIB
                unread_bytes = metric(broker.ready["metrics"], r"ottla_queued_bytes\{[^}]*response[^}]*\}")
            system_buffers_bytes = 4 * MIB
            assert size - system_buffers_bytes < unread_bytes < size + MIB
    finally:
        broker.close()


def test_idle_tls_connection_keeps_no_memory_of_a_large_response(tmp_path: Path) -> None:
    broker = SecuredBroker(tmp_path, {"ssl.client.auth": "none"})
    context, clients = broker.context(), []
    try:
        fill(broker, 10 * MIB)
        for number in range(30):
            raw = socket.create_connection(broker.address("SSL"), HANGS_S)
            clients.append(context.wrap_socket(raw, server_hostname="localhost"))
            clients[-1].sendall(fetch_frame())
            with clients[-1].makefile("rb") as responses:
                assert len(responses.read(int.from_bytes(responses.read(4)))) > 5 * MIB
            if number == 9:
                first_bytes = resident_bytes(broker)
        assert resident_bytes(broker) < first_bytes + 40 * MIB
    finally:
        for client in clients:
            client.close()
        broker.close()


def test_incompletely_received_requests_share_a_memory_budget(broker: Broker, connect: Callable[[], socket.socket]) -> None:
    part = (8 * MIB).to_bytes(4, "big") + bytes(MIB)
    with Watch(broker) as watch:
        for _ in range(150):
            stuck = connect()
            stuck.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                stuck.send(part)
        # A client that sends a large request completely still gets its response.
        with RawClient(broker.bootstrap) as client:
            create(client, "t")
            batch = build_batch([(b"k", bytes(900_000))], time.time_ns() // 1_000_000)
            data = [TopicProduceData("t", partition_data=[PartitionProduceData(index=0, records=batch)])]
            assert (
                client.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=data), 9)
                .responses[0]
                .partition_responses[0]
                .error_code
                == 0
            )
    assert watch.grown_bytes < REQUEST_BUDGET_BYTES + 64 * MIB


def test_idle_connections_use_little_broker_memory(broker: Broker, connect: Callable[[], socket.socket]) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(3_000, hard - 500)
    soft_before = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft_before, count + 500), hard))
    frame = request_frame(18, 3, 1, "c", ApiVersionsRequest(client_software_name="a", client_software_version="1"))
    with RawClient(broker.bootstrap) as client:
        client.call(ApiVersionsRequest(), 3)
    before = resident_bytes(broker)
    for _ in range(count):
        idle = connect()
        idle.sendall(frame)
        assert idle.recv(65_536)
    assert (resident_bytes(broker) - before) / count < 12 * 1024


def test_parked_fetches_of_closed_connections_keep_no_broker_memory(broker: Broker, connect: Callable[[], socket.socket]) -> None:
    fill(broker, MIB)
    partition = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=MIB)
    request = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])])
    frame = request_frame(1, 11, 1, "c", request)

    def abandon(count: int) -> None:
        for _ in range(count):
            with connect() as polling:
                polling.sendall(frame)

    abandon(500)
    with Watch(broker) as watch:
        abandon(3_000)
    assert watch.grown_bytes < 10 * MIB


@pytest.mark.nightly
def test_auto_creation_of_many_topics_does_not_block_other_clients(broker: Broker) -> None:
    with Watch(broker) as watch, RawClient(broker.bootstrap) as client:
        answer = client.call(MetadataRequest([MetadataRequestTopic(name=f"topic-{n}") for n in range(5_000)]), 12)
    assert {topic.error_code for topic in answer.topics} == {0}
    assert watch.longest_wait_s < LONGEST_WAIT_S
