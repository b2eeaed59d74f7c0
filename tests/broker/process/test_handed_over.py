"""A directory that now belongs to Apache Kafka is refused with the reason and the remedy."""

from __future__ import annotations

import pytest

from ottla.operations.adoption import carry_out, plan_adoption
from ottla.operations.graduation import hand_over, plan_graduation
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.identity import KRAFT_FILE, METADATA_DIRECTORY, DirectoryError, DirectoryIdentity
from tests.scenarios.play import perform
from tests.scenarios.world import World


@pytest.fixture
def disk() -> MemoryFilesystem:
    """A log directory that was handed over to Apache Kafka in place."""
    broker = SimulatedBroker().start()
    world = World(broker, "ottla", "")
    for command in ("topic t", "N = init", "produce N t"):
        perform(world, command)
    world.close()
    broker.close()
    assert isinstance(broker.fs, MemoryFilesystem)
    hand_over(broker.fs, DATA_DIR, plan_graduation(broker.fs, DATA_DIR, {}))
    return broker.fs


def refused(disk: MemoryFilesystem) -> str:
    before = {path: bytes(raw) for path, raw in disk.files.items()}
    broker = SimulatedBroker(fs=disk)
    with pytest.raises(DirectoryError) as refusal:
        broker.start()
    broker.abandon()
    assert {path: bytes(raw) for path, raw in disk.files.items()} == before
    with pytest.raises(DirectoryError) as same:
        plan_graduation(disk, DATA_DIR, {})
    assert str(same.value) == str(refusal.value)
    source = MemoryFilesystem({"/source/u-0/00000000000000000000.log": b"", **before})
    plan = plan_adoption(source, "/source", [], iter(lambda: bytes(range(16)), None))
    with pytest.raises(DirectoryError) as same:
        carry_out(source, DATA_DIR, plan, DirectoryIdentity("cluster", 1, "directory"), 0, lambda *_: None)
    assert str(same.value) == str(refusal.value)
    return str(refusal.value)


def test_broker_refuses_a_directory_converted_in_place_for_apache_kafka(disk: MemoryFilesystem) -> None:
    assert refused(disk) == (
        f"{DATA_DIR} was handed over to Apache Kafka (ottla graduate --in-place): start Apache Kafka on it, or import its topics"
        " into"
        f" another directory with ottla adopt --from {DATA_DIR} --data-dir OTHER"
    )


def test_broker_refuses_a_directory_that_apache_kafka_has_used(disk: MemoryFilesystem) -> None:
    disk.write_file(f"{DATA_DIR}/{METADATA_DIRECTORY}/{KRAFT_FILE}", b"{}")
    assert refused(disk) == (
        f"{DATA_DIR} was used by Apache Kafka: start Apache Kafka on it, or import its topics into another directory with"
        f" ottla adopt --from {DATA_DIR} --data-dir OTHER"
    )


def test_broker_serves_a_directory_whose_conversion_for_kafka_was_interrupted(disk: MemoryFilesystem) -> None:
    """The hand-over was interrupted before the metadata directory was moved away."""
    disk.rename(f"{DATA_DIR}.ottla-metadata", f"{DATA_DIR}/{METADATA_DIRECTORY}")
    broker = SimulatedBroker(fs=disk).start()
    assert "t" in broker.broker.cluster.state.topics
    broker.close()
