"""How ``ottla copy`` ends: a deleted topic, a full disk of the target, and a signal."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ottla import Broker
from ottla.client import ClientError, KafkaAnswered, KafkaClient, NewRecord
from ottla.client.records import copying
from ottla.client.records.copying import TopicCopy
from ottla.client.records.transactional_producer import TransactionalProducer
from ottla.protocol.errors import Code

pytestmark = pytest.mark.wire

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture
def topic() -> str:
    return f"copied-{uuid.uuid4().hex[:8]}"


def test_continuous_copy_command_ends_if_a_topic_is_deleted(
    source: str, target: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "TOPICS_CHECK_S", 0.0)
    with KafkaClient(source, TIMEOUT_S) as reading, KafkaClient(target, TIMEOUT_S) as writing:
        reading.create_topic(topic, 1)
        reading.produce(topic, [NewRecord(value=b"first")])
        for again in (False, True):
            running = TopicCopy(reading.brokers, writing.brokers, topic, topic)
            running.prepare()
            rounds = running.rounds(follow=True)
            assert next(rounds) == 1
            writing.delete_topic(topic)
            if again:
                writing.create_topic(topic, 1)
            with pytest.raises(ClientError, match=f"the target topic '{topic}' at {target} was deleted during the copy; the same"):
                next(rounds)
        running = TopicCopy(reading.brokers, writing.brokers, topic, topic)
        running.prepare()
        rounds = running.rounds(follow=True)
        assert next(rounds) == 1
        reading.delete_topic(topic)
        with pytest.raises(ClientError, match=f"topic '{topic}' at {source} was deleted during the copy; the records"):
            next(rounds)


def test_copy_command_reports_the_deletion_of_its_target_topic(source: str, target: str, topic: str) -> None:
    with KafkaClient(source, TIMEOUT_S) as reading, KafkaClient(target, 2) as writing:
        reading.create_topic(topic, 1)
        running = TopicCopy(reading.brokers, writing.brokers, topic, topic)
        running.prepare()
        writing.delete_topic(topic)
        reading.produce(topic, [NewRecord(value=b"first")])
        with pytest.raises(ClientError, match=f"the target topic '{topic}' at {target} was deleted during the copy"):
            next(running.rounds(follow=True))


def test_copy_command_to_a_full_disk_names_the_broker_and_the_remedy(
    source: str, target: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> None:
        raise KafkaAnswered(f"writing to {topic}-0", Code.KAFKA_STORAGE_ERROR)

    with KafkaClient(source, TIMEOUT_S) as reading, KafkaClient(target, TIMEOUT_S) as writing:
        reading.create_topic(topic, 1)
        reading.produce(topic, [NewRecord(value=b"first")])
        running = TopicCopy(reading.brokers, writing.brokers, topic, topic)
        running.prepare()
        with monkeypatch.context() as patched:
            patched.setattr(TransactionalProducer, "write", write)
            with pytest.raises(ClientError) as refused:
                next(running.rounds())
        assert f"broker {target} cannot write to its disk, which may be full; free space there, and run the same command" in str(
            refused.value
        )
        again = TopicCopy(reading.brokers, writing.brokers, topic, topic)
        again.prepare()
        assert list(again.rounds()) == [1]


def test_copy_command_names_a_coordinator_that_cannot_write_its_log(source: str, topic: str) -> None:
    """The coordinator answers NOT_COORDINATOR, as in Kafka, which does not mention a disk."""
    with Broker() as full, KafkaClient(source, TIMEOUT_S) as reading, KafkaClient(full.bootstrap, 5) as writing:
        for client in (reading, writing):
            client.create_topic(topic, 1)
        reading.produce(topic, [NewRecord(value=b"first")])
        # The coordinator's topic exists before the disk is full.
        TransactionalProducer(writing.brokers, "first")
        assert full.pid is not None
        _, hard = resource.prlimit(full.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(full.pid, resource.RLIMIT_FSIZE, (1, hard))
        with pytest.raises(ClientError) as refused:
            TopicCopy(reading.brokers, writing.brokers, topic, topic).prepare()
        told = f"broker {full.bootstrap} cannot write to its disk, which may be full; free space there"
        assert told in str(refused.value), refused.value
        resource.prlimit(full.pid, resource.RLIMIT_FSIZE, (hard, hard))
        again = TopicCopy(reading.brokers, writing.brokers, topic, topic)
        again.prepare()
        assert list(again.rounds()) == [1]


def test_copy_command_to_a_broker_with_a_manual_clock_keeps_timestamps(source: str, topic: str) -> None:
    """By default, a broker with a manual clock replaces record timestamps (LogAppendTime)."""
    with Broker(clock="manual") as frozen, KafkaClient(source, TIMEOUT_S) as reading:
        reading.create_topic(topic, 1)
        reading.produce(topic, [NewRecord(value=b"first", timestamp_ms=1_000)])
        with KafkaClient(frozen.bootstrap, TIMEOUT_S) as writing:
            copy = TopicCopy(reading.brokers, writing.brokers, topic, topic)
            copy.prepare()
            assert list(copy.rounds()) == [1]
        assert [record.timestamp_ms for record in frozen.records(topic)] == [1_000]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_continuous_copy_command_reports_its_records_when_a_signal_ends_it(
    source: str, target: str, topic: str, number: signal.Signals
) -> None:
    with KafkaClient(source, TIMEOUT_S) as reading, KafkaClient(target, TIMEOUT_S) as writing:
        reading.create_topic(topic, 1)
        reading.produce(topic, [NewRecord(value=b"first"), NewRecord(value=b"second")])
        command = [sys.executable, "-m", "ottla", "copy", topic, "--from", source, "--to", target, "--follow"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            with suppress(ClientError):
                if len(writing.records(topic)) == 2:
                    break
            time.sleep(0.1)
        time.sleep(0.5)  # The command counts the records after the commit has been acknowledged.
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (0, "")
    assert out == f"2 records were copied to {topic} at {target}: 2 to partition 0\n"
