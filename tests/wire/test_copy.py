"""``ottla copy``: each committed record exactly once, whenever the command is killed, from and to ottla and Apache Kafka."""

from __future__ import annotations

import json
import random
import shlex
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from ottla import Broker
from ottla.addresses import Address
from ottla.cli import main
from ottla.client import ClientError, KafkaClient, NewRecord
from ottla.client.admin.topics import add_partitions
from ottla.client.cluster import BrokerConnections
from ottla.client.records import copying
from ottla.client.records.copying import TopicCopy
from ottla.client.records.transactional_producer import FencedProducer
from ottla.client.wire.transport import SocketTransport
from tests.support import oracle
from tests.support.raw_client import RawClient
from tests.support.shared_kafka import ORACLE_SETTINGS
from tests.support.waiting import wait_until
from tools.kafka import ApacheKafka, Unavailable

pytestmark = pytest.mark.wire

TIMEOUT_S = 60
KILLS = 60
COMMITTED_AT_MOST = 300
"""Maximum number of source offsets that a copy commits before it is killed."""
Rows = dict[int, list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]]]


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    with Broker(settings={"num.partitions": "3"}) as broker:
        yield broker.bootstrap


@pytest.fixture(
    scope="module", params=["ottla", "old-transactions", pytest.param("kafka", marks=[pytest.mark.full, pytest.mark.java])]
)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an ottla broker with each transaction version, or of an Apache Kafka broker."""
    if request.param != "kafka":
        features = {"transaction.version": 1} if request.param == "old-transactions" else {}
        with Broker(features=features) as broker:
            yield broker.bootstrap
        return
    try:
        kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), settings=ORACLE_SETTINGS).start()
    except Unavailable as missing:
        pytest.skip(str(missing))
    try:
        yield kafka.bootstrap
    finally:
        kafka.stop()


def fill(bootstrap: str, topic: str, *, rounds: int = 3) -> None:
    """Write records of all kinds: with and without keys, tombstones, headers, old timestamps, compressed, large, aborted."""
    with KafkaClient(bootstrap, TIMEOUT_S) as client:
        client.create_topic(topic, 3, {"retention.ms": "-1", "max.message.bytes": "2000000"})
    plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "zstd"})
    single = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.num.messages": 1})
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"fill-{uuid.uuid4()}"})
    transactional.init_transactions(TIMEOUT_S)
    draw = random.Random(topic)
    for number in range(rounds):
        for at in range(40):
            plain.produce(
                topic, key=f"k{at}", value=draw.randbytes(2_000), headers=[("n", str(at)), ("null", None), ("n", b"\xff")]
            )
        single.produce(topic, key=b"tombstone", value=None, partition=number % 3, timestamp=1_600_000_000_000 + number)
        single.produce(topic, key=None, value=b"", partition=1)
        plain.produce(topic, value=draw.randbytes(300_000), partition=2, timestamp=1_700_000_000_000)
        for producer in (plain, single):
            producer.flush(TIMEOUT_S)
        for commits in (True, False):
            transactional.begin_transaction()
            for at in range(20):
                transactional.produce(topic, key=f"k{at}", value=f"{'committed' if commits else 'aborted'} {number} {at}")
            transactional.flush(TIMEOUT_S)
            (transactional.commit_transaction if commits else transactional.abort_transaction)(TIMEOUT_S)


def rows(bootstrap: str, topic: str) -> Rows:
    """Return the committed records once no transaction is open: Apache Kafka writes the markers after the response to EndTxn."""
    with KafkaClient(bootstrap, TIMEOUT_S) as client:
        oracle.final_value(
            lambda: client.topic(topic).partitions,
            lambda partitions: all(p.last_stable_offset == p.high_watermark for p in partitions),
        )
        found: Rows = {index: [] for index in client.brokers.partitions(topic)}
        for record in client.records(topic):
            found[record.partition].append((record.key, record.value, tuple(record.headers), record.timestamp_ms))
    return found


def copy(capsys: pytest.CaptureFixture[str], source: str, target: str, topic: str, *options: str) -> dict[str, object]:
    code = main(["copy", topic, "--from", source, "--to", target, "--timeout-s", str(TIMEOUT_S), "--json", *options])
    out, err = capsys.readouterr()
    assert code == 0, err
    document: dict[str, object] = json.loads(out)
    return document


@pytest.fixture
def topic() -> str:
    return f"copied-{uuid.uuid4().hex[:8]}"


@pytest.mark.smoke
def test_copy_command_writes_the_same_records_as_its_source(
    source: str, target: str, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(source, topic)
    first = copy(capsys, source, target, topic)
    assert (first["created"], first["records"]) == (True, 3 * 63)
    assert rows(target, topic) == rows(source, topic)
    with KafkaClient(target, TIMEOUT_S) as client:
        assert {c.name: c.value for c in client.topic(topic).configs if c.own}["max.message.bytes"] == "2000000"
    assert copy(capsys, source, target, topic)["records"] == 0
    with KafkaClient(source, TIMEOUT_S) as client:
        client.produce(topic, [NewRecord(value=b"later", partition=1)])
    assert copy(capsys, source, target, topic)["records"] == 1
    assert rows(target, topic) == rows(source, topic)


def test_copy_command_copies_a_topic_back_to_ottla(
    source: str, target: str, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(source, topic, rounds=1)
    copy(capsys, source, target, topic)
    copy(capsys, target, source, topic, "--as", f"{topic}-back")
    assert rows(source, f"{topic}-back") == rows(source, topic)


class Killed(BaseException):
    """An exception that no code of the copy handles, as if the process had ended."""


class MortalBrokers:
    """Connections of the copy's clients. From the operation ``dies_at`` on, each raises `Killed`, as if the copy had ended."""

    def __init__(self, dies_at: int) -> None:
        self.left = dies_at

    def connections(self, bootstrap: str) -> BrokerConnections:
        return BrokerConnections(bootstrap, timeout_s=TIMEOUT_S, connect=self._connect)

    def _connect(self, address: Address, timeout_s: float) -> MortalTransport:
        return MortalTransport(self, SocketTransport(address, timeout_s))

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


class MortalTransport:
    def __init__(self, brokers: MortalBrokers, transport: SocketTransport) -> None:
        self._brokers, self._transport = brokers, transport

    def send(self, data: bytes) -> None:
        self._brokers.step()
        self._transport.send(data)

    def receive(self, size: int) -> bytes:
        self._brokers.step()
        return self._transport.receive(size)

    def close(self) -> None:
        self._transport.close()


def test_copy_command_killed_at_any_request_resumes_exactly_once(source: str, target: str, topic: str) -> None:
    fill(source, topic, rounds=1)
    expected = rows(source, topic)
    dies_at, ended = 0, 0
    while True:
        name = f"{topic}-{dies_at}"
        mortal = MortalBrokers(dies_at)
        reading, writing = mortal.connections(source), mortal.connections(target)
        try:
            first = TopicCopy(reading, writing, topic, name)
            first.prepare()
            for _ in first.rounds():
                pass
            break
        except Killed:
            ended += 1
        finally:
            reading.close()
            writing.close()
        again = MortalBrokers(1_000_000)
        reading, writing = again.connections(source), again.connections(target)
        second = TopicCopy(reading, writing, topic, name)
        second.prepare()
        for _ in second.rounds():
            pass
        reading.close()
        writing.close()
        assert rows(target, name) == expected, f"killed at operation {dies_at}"
        with KafkaClient(target, TIMEOUT_S) as client:
            client.delete_topic(name)
        # Most file operations are the same for each batch, so the copy is killed at some of them only.
        dies_at += 3
    assert ended > 20


class Progress:
    """The offsets of the source that copies of a topic have committed at the target."""

    def __init__(self, source: str, target: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": target})
        with KafkaClient(source, TIMEOUT_S) as client:
            self._group = ConsumerGroupTopicPartitions(f"ottla-copy/{client.brokers.cluster_id()}/{topic}/{topic}")

    def committed(self) -> int:
        """Return the sum of the committed offsets of all partitions, without those of an open transaction."""
        (future,) = self._admin.list_consumer_group_offsets([self._group]).values()
        return sum(max(0, partition.offset) for partition in future.result(TIMEOUT_S).topic_partitions)


@pytest.mark.nightly
def test_killed_copy_commands_lose_and_duplicate_no_records(source: str, target: str, topic: str) -> None:
    fill(source, topic, rounds=30)
    stopped = threading.Event()

    def write() -> None:
        with KafkaClient(source, TIMEOUT_S) as client:
            number = 0
            while not stopped.wait(0.02):
                client.produce(topic, [NewRecord(value=b"live %d" % number, key=b"%d" % number) for _ in range(5)])
                number += 1

    writer = threading.Thread(target=write)
    writer.start()
    command = [sys.executable, "-m", "ottla", "copy", topic, "--from", source, "--to", target, "--timeout-s", str(TIMEOUT_S)]
    draw, progress = random.Random(38), Progress(source, target, topic)
    try:
        for _ in range(KILLS):
            end = progress.committed() + draw.randint(1, COMMITTED_AT_MOST)
            process = subprocess.Popen([*command, "--follow"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            wait_until(lambda end=end, process=process: process.poll() is not None or progress.committed() >= end)
            process.kill()
            assert process.wait() == -signal.SIGKILL, process.communicate()[1]
            process.communicate()
    finally:
        stopped.set()
        writer.join()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert rows(target, topic) == rows(source, topic)


def test_second_copy_command_fences_the_first(source: str, target: str, topic: str) -> None:
    fill(source, topic, rounds=1)
    clients = [KafkaClient(bootstrap, TIMEOUT_S) for bootstrap in (source, target, source, target)]
    older, newer = (TopicCopy(clients[at].brokers, clients[at + 1].brokers, topic, topic) for at in (0, 2))
    older.prepare()
    newer.prepare()
    with pytest.raises(FencedProducer, match="another process has taken the transactional id 'ottla-copy/"):
        list(older.rounds())
    list(newer.rounds())
    assert rows(target, topic) == rows(source, topic)
    for client in clients:
        client.close()


def test_copy_command_that_could_duplicate_or_lose_records_is_refused(source: str, target: str, topic: str) -> None:
    fill(source, topic, rounds=1)

    def refused(**options: bool) -> str:
        with KafkaClient(source, TIMEOUT_S) as reading, KafkaClient(target, TIMEOUT_S) as writing:
            with pytest.raises(ClientError) as raised:
                TopicCopy(reading.brokers, writing.brokers, topic, topic, **options).prepare()
            return str(raised.value)

    with KafkaClient(target, TIMEOUT_S) as client:
        client.create_topic(topic, 2)
        assert "has 2 of 3 partitions; add them with ottla topic alter --partitions 3" in refused()
        client.delete_topic(topic)
        client.create_topic(topic, 3, {"message.timestamp.type": "LogAppendTime"})
        told = refused()
        assert "replaces timestamps, which a copy keeps; set message.timestamp.type=CreateTime" in told
        assert main(shlex.split(told.rpartition(": ottla ")[2])) == 0
        with KafkaClient(source, TIMEOUT_S) as reading:
            TopicCopy(reading.brokers, client.brokers, topic, topic).prepare()
        client.delete_topic(topic)
        client.create_topic(topic, 3)
        client.produce(topic, [NewRecord(value=b"of another writer")])
        assert "has records, but no progress of this copy; give --new" in refused()


def test_copy_command_detects_a_recreated_topic(source: str, target: str, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(source, topic, rounds=1)
    copy(capsys, source, target, topic)
    with KafkaClient(source, TIMEOUT_S) as client:
        client.delete_topic(topic)
        client.create_topic(topic, 3)
        client.produce(topic, [NewRecord(value=b"of the new topic", partition=0)])
    assert main(["copy", topic, "--from", source, "--to", target]) == 2
    assert "was created again after it was copied; give --new" in capsys.readouterr().err
    assert copy(capsys, source, target, topic, "--new")["records"] == 1
    # The recreated topic at the target has no copy progress.
    with KafkaClient(target, TIMEOUT_S) as client:
        client.delete_topic(topic)
    with RawClient(target) as raw:
        oracle.topic_gone(raw, topic)
    assert copy(capsys, source, target, topic)["records"] == 1
    assert rows(target, topic) == rows(source, topic)


def test_copy_command_reports_records_that_were_deleted_before_they_were_copied(
    source: str, target: str, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(source, topic, rounds=1)
    copy(capsys, source, target, topic)
    with KafkaClient(source, TIMEOUT_S) as client:
        end = client.topic(topic).partitions[0].high_watermark
        client.produce(topic, [NewRecord(value=b"%d" % at, partition=0) for at in range(3)])
    assert main(["record", "delete", f"{topic}:0", "--before", str(end + 2), "--bootstrap", source]) == 0
    capsys.readouterr()
    document = copy(capsys, source, target, topic)
    assert document["records"] == 1
    assert document["skipped"] == [{"partition": 0, "first": end, "end": end + 2}]


def test_copy_command_keeps_log_append_times_and_skips_open_transactions(
    source: str, target: str, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with KafkaClient(source, TIMEOUT_S) as client:
        client.create_topic(topic, 1, {"message.timestamp.type": "LogAppendTime"})
        client.produce(topic, [NewRecord(value=b"%d" % at, timestamp_ms=1_000) for at in range(1_000)])
    producer = Producer({"bootstrap.servers": source, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(TIMEOUT_S)
    first = copy(capsys, source, target, topic)
    assert (first["records"], first["held"]) == (1_000, 1)
    producer.commit_transaction(TIMEOUT_S)
    second = copy(capsys, source, target, topic)
    assert (second["records"], second["held"]) == (1, 0)
    copied = rows(target, topic)
    assert copied == rows(source, topic)
    assert copied[0][0][3] > 1_000


def test_continuous_copy_command_finds_new_partitions(
    source: str, target: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "TOPICS_CHECK_S", 0.0)
    with KafkaClient(source, TIMEOUT_S) as reading, KafkaClient(target, TIMEOUT_S) as writing:
        reading.create_topic(topic, 1)
        reading.produce(topic, [NewRecord(value=b"first")])
        running = TopicCopy(reading.brokers, writing.brokers, topic, topic)
        running.prepare()
        rounds = running.rounds(follow=True)
        assert next(rounds) == 1
        for client in (writing, reading):
            add_partitions(client.brokers, topic, 2)
        reading.produce(topic, [NewRecord(value=b"second", partition=1)])
        assert next(rounds) == 1
        assert running.copied == {0: 1, 1: 1}
    assert rows(target, topic) == rows(source, topic)
