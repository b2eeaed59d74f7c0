"""Unknown directories in the data directory, and internal topics that clients cannot write."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla import Broker
from ottla.cli import main
from tests.scenarios.brokers import Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.support.waiting import logged

pytestmark = pytest.mark.wire

WAIT_S = 60


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Broker(data_dir=tmp_path) as broker:
        world = World(Wire(broker), "ottla", "")
        yield world
        world.close()


def test_stray_partition_directories_are_renamed_at_broker_start(world: World, tmp_path: Path) -> None:
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    broker = world.broker.process  # type: ignore[attr-defined]
    broker.stop()
    (tmp_path / "t-0").rename(tmp_path / "ghost-0")
    broker.start()
    world.forget_connection()
    assert [p.name for p in tmp_path.glob("ghost-0*")] != ["ghost-0"]
    assert logged(broker, "stray_directory_set_aside")
    perform(world, "topic ghost")
    assert perform(world, "ends ghost") == "start=0 lso=0 end=0"
    assert perform(world, "produce A ghost") == "NONE @0"


def consumed(bootstrap: str, topic: str) -> list[bytes]:
    """Return the values that a stock consumer reads from a topic with one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while not (message := consumer.consume(1, WAIT_S)[0]).error():
        values.append(message.value())
    consumer.close()
    return values


def test_stray_partition_directory_is_reported_and_its_records_can_be_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker(data_dir=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for number in range(10):
            producer.produce("orders", b"%d" % number, partition=0)
        assert producer.flush(WAIT_S) == 0
        shutil.copytree(tmp_path / "orders-0", tmp_path / "copy")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.delete_topics(["orders"])["orders"].result(WAIT_S)
        broker.stop()
        # After a loss of the metadata log, the topic id of an existing directory belongs to no topic.
        (tmp_path / "copy").rename(tmp_path / "orders-0")
        broker.start()
        (stray,) = tmp_path.glob("orders-0.*-stray")

        def is_measured() -> bool:
            assert main(["health", "--bootstrap", broker.bootstrap]) == 0
            return "unknown number" not in capsys.readouterr().out

        broker.wait_for(is_measured, WAIT_S)
        assert main(["health", "--bootstrap", broker.bootstrap]) == 0
        warning = capsys.readouterr().out.splitlines()[1]
        assert warning.startswith(f"warning: stray directory {stray}: ")
        assert main(["cluster", "--bootstrap", broker.bootstrap]) == 0
        assert str(stray) in capsys.readouterr().out
        state = broker._control().get("/v1/state")
        assert state["is_sound"]
        assert [report["directory"] for report in state["strays"]["named"]] == [str(stray)]
        way_back = warning.rpartition("then: ")[2].split()
        broker.stop()
        assert main([*way_back[1:], "--as", "found"]) == 0
        broker.start()
        assert consumed(broker.bootstrap, "found") == [b"%d" % number for number in range(10)]


def test_clients_cannot_write_internal_topics(world: World) -> None:
    for command in ("A = init x", "N = init"):
        perform(world, command)
    assert perform(world, "produce N __transaction_state") == "INVALID_TOPIC_EXCEPTION"
