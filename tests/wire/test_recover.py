"""Damage in closed segments, as stock clients and ``ottla health`` see it, and ``ottla recover`` for ottla and Apache Kafka."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from ottla.cli import main
from tests.storage.harm import CUTS, HARMS, harmed
from tools.kafka import QUICK_JVM, ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire]

RECORDS = 900
WAIT_S = 60
CONFIG = {"internal.segment.bytes": "65536"}
KINDS = {**HARMS, **CUTS}
NUMBER = 40
"""Number of the damaged batch within the second segment."""


def topic_of(kind: str) -> str:
    return kind.replace(" ", "-")


def fill(bootstrap: str, kinds: list[str]) -> None:
    """Write topics with several segments and one record per batch, as a producer does that waits for each acknowledgement."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic_of(kind), 1, 1, config=CONFIG) for kind in kinds]).values():
        future.result(WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "batch.num.messages": 1})
    for kind in kinds:
        for number in range(RECORDS):
            producer.produce(topic_of(kind), b"v" * 100, b"%d" % number)
            producer.poll(0)
    assert producer.flush(WAIT_S) == 0


def damage(directory: Path, kind: str) -> tuple[Path, int, int]:
    """Damage the second segment of a topic. Returns its path, and the position and offset of the damaged batch."""
    path = sorted((directory / f"{topic_of(kind)}-0").glob("*.log"))[1]
    raw, position, header = harmed(path.read_bytes(), kind, NUMBER)
    path.write_bytes(raw)
    return path, position, header.base_offset


def consumed(bootstrap: str, kind: str) -> tuple[list[int], int | None]:
    """Return the offsets that a consumer reads, and the error code that ended it, or None at the end of the partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True, "log_level": 0})
    consumer.assign([TopicPartition(topic_of(kind), 0, 0)])
    offsets: list[int] = []
    try:
        while True:
            (message,) = consumer.consume(1, WAIT_S)
            error = message.error()
            if error is not None:
                return offsets, None if error.code() == KafkaError._PARTITION_EOF else error.code()
            offsets.append(message.offset())
    finally:
        consumer.close()


@pytest.mark.full
def test_damaged_segment_fails_the_consumer_and_is_located_by_the_health_command(tmp_path: Path) -> None:
    kinds = ["length 0", "zeros", "wrong CRC", "offset goes backwards"]
    directory = tmp_path / "data"
    with Broker(data_dir=directory) as broker:
        fill(broker.bootstrap, kinds)
    places = {kind: damage(directory, kind) for kind in kinds}
    with Broker(data_dir=directory) as broker:
        assert health(broker.bootstrap).returncode == 0
        for kind, (_, _, offset) in places.items():
            offsets, error = consumed(broker.bootstrap, kind)
            assert offsets == list(range(offset)), kind
            assert error is not None, kind
        said = health(broker.bootstrap)
        assert said.returncode == 1
        for kind, (path, position, offset) in places.items():
            assert f"{topic_of(kind)}-0: {path} is damaged at byte {position}, offset {offset}" in said.stderr
    assert main(["recover", "--data-dir", str(directory), "--discard"]) == 0
    with Broker(data_dir=directory) as broker:
        for kind, (_, _, offset) in places.items():
            lost = {offset, offset + 1} if kind == "zeros" else {offset}
            assert consumed(broker.bootstrap, kind) == ([one for one in range(RECORDS) if one not in lost], None)
        assert health(broker.bootstrap).returncode == 0


def health(bootstrap: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", "health", "--bootstrap", bootstrap]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    try:
        with ApacheKafka(tmp_path / "kafka", jvm=QUICK_JVM) as kafka:
            yield kafka
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")


@pytest.mark.full
@pytest.mark.java
@pytest.mark.parametrize("kill", [False, True], ids=["clean stop", "kill"])
def test_apache_kafka_starts_on_a_directory_repaired_by_the_recover_command(kafka: ApacheKafka, kill: bool) -> None:
    """Each kind of damage is discarded, and a consumer of Apache Kafka reads all other records without an error."""
    fill(kafka.bootstrap, list(KINDS))
    kafka.kill() if kill else kafka.stop()
    offsets = {kind: damage(kafka.log_dir, kind)[2] for kind in KINDS}
    ends = {kind: following(kafka.log_dir, kind) for kind in KINDS}
    assert main(["recover", "--data-dir", str(kafka.log_dir)]) == 2
    assert main(["recover", "--data-dir", str(kafka.log_dir), "--discard"]) == 0
    assert main(["recover", "--data-dir", str(kafka.log_dir)]) == 0
    kafka.start()
    for kind, offset in offsets.items():
        lost = {offset, offset + 1} if kind == "zeros" else {offset}
        if kind in CUTS:
            lost = set(range(offset, ends[kind][1])) if kind != "emptied" else set(range(*ends[kind]))
        assert consumed(kafka.bootstrap, kind) == ([one for one in range(RECORDS) if one not in lost], None), kind


def following(directory: Path, kind: str) -> tuple[int, int]:
    """Return the base offsets of the second and third segments."""
    _, second, third, *_ = sorted((directory / f"{topic_of(kind)}-0").glob("*.log"))
    return int(second.stem), int(third.stem)
