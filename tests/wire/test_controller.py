"""An Apache Kafka broker with ottla's controller: it registers, serves stock clients, and leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    TopicMetadata,
)

from tests.support import oracle
from tools.kafka import ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

CONTROLLER = 3000
PATIENCE_S = oracle.LIMIT_S
EMPTY = TopicMetadata()


class Controller:
    """An ottla controller in its own process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self.ready: dict[str, Any] = {}

    def start(self) -> None:
        command = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(self.directory), "--log-format", "json"]
        settings = (
            "process.roles=controller",
            f"node.id={CONTROLLER}",
            f"listeners=CONTROLLER://127.0.0.1:{self.port}",
            "broker.session.timeout.ms=6000",
        )
        for setting in settings:
            command += ["--set", setting]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.ready = json.loads(self._process.stdout.readline())
        self.port = int(self.ready["controller"].rpartition(":")[2])

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(number)
        code = self._process.wait(PATIENCE_S)
        self._process.stdout.close()
        return code


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    controller = Controller(tmp_path_factory.mktemp("controller"))
    controller.start()
    yield controller
    assert controller.end() == 0


@pytest.fixture(scope="module")
def kafka(controller: Controller, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    kafka = ApacheKafka(
        tmp_path_factory.mktemp("kafka"),
        heap="512M",
        under=(controller.ready["cluster_id"], f"{CONTROLLER}@127.0.0.1:{controller.port}"),
    )
    try:
        kafka.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield kafka
    kafka.stop()


@pytest.fixture
def admin(kafka: ApacheKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(PATIENCE_S)
    wait_for_partitions(admin, name, 3)
    return name


def wait_for_partitions(admin: AdminClient, topic: str, count: int) -> None:
    """Wait until the broker has applied the controller's change. A deleted topic has no partitions."""
    oracle.wait_for(
        f"the broker knows {count} partitions of {topic!r}",
        lambda: len(admin.list_topics(timeout=PATIENCE_S).topics.get(topic, EMPTY).partitions),
        count.__eq__,
    )


def committed(kafka: ApacheKafka, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": f"g-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, values
        assert message.error() is None
        values.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return sorted(values)


def commit_some(kafka: ApacheKafka, topic: str, first: int) -> None:
    """Run four transactions and abort every second one."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(PATIENCE_S)
    for number in range(first, first + 4):
        producer.begin_transaction()
        for part in "ab":
            producer.produce(topic, f"{number}{part}", partition=number % 3)
        (producer.commit_transaction if number % 2 == 0 else producer.abort_transaction)(PATIENCE_S)


def test_transactions_commit_on_a_kafka_broker_under_ottlas_controller(kafka: ApacheKafka, topic: str) -> None:
    commit_some(kafka, topic, 0)
    assert committed(kafka, topic, 4) == [b"0a", b"0b", b"2a", b"2b"]


def test_kafka_broker_forwards_controller_requests_to_ottlas_controller(kafka: ApacheKafka, admin: AdminClient, topic: str) -> None:
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)
    entry = ConfigEntry("retention.ms", "1234", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    def retention() -> str:
        shown = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])
        return next(iter(shown.values())).result(PATIENCE_S)["retention.ms"].value

    oracle.wait_for("retention.ms is 1234", retention, "1234".__eq__)
    wait_for_partitions(admin, topic, 5)
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    wait_for_partitions(admin, topic, 0)


def test_kafka_broker_continues_after_a_kill_of_ottlas_controller(kafka: ApacheKafka, controller: Controller, topic: str) -> None:
    commit_some(kafka, topic, 0)
    controller.end(signal.SIGKILL)
    commit_some(kafka, topic, 4)
    controller.start()
    other = f"{topic}-after"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(other, 3, 1)])[other].result(PATIENCE_S)
    wait_for_partitions(admin, other, 3)
    commit_some(kafka, other, 0)
    assert committed(kafka, topic, 8) == [b"0a", b"0b", b"2a", b"2b", b"4a", b"4b", b"6a", b"6b"]
    assert committed(kafka, other, 4) == [b"0a", b"0b", b"2a", b"2b"]


def test_restarted_kafka_broker_under_ottlas_controller_has_all_its_data(kafka: ApacheKafka, topic: str) -> None:
    commit_some(kafka, topic, 0)
    kafka.restart()
    commit_some(kafka, topic, 4)
    assert committed(kafka, topic, 8) == [b"0a", b"0b", b"2a", b"2b", b"4a", b"4b", b"6a", b"6b"]
