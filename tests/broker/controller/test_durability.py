"""A controller with ``ottla.durability=power`` sends no response and no record that a power cut could revoke."""

from __future__ import annotations

import errno

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import Closed, newest
from ottla.simulation.controller import SimulatedController
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.simulation.torn_disk import TornDisk
from ottla.simulation.tracing_filesystem import TracingFilesystem
from tests.broker.controller.world import Broker

POWER = {"ottla.durability": "power"}


def creation(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def after_power_cut(fs: TracingFilesystem) -> MemoryFilesystem:
    """Return the files as they are after a power cut: without unsynced writes."""
    disk = TornDisk()
    for op in fs.trace:
        disk.apply(op)
    synced = [path for path, content in disk._files.items() if content.synced]
    return MemoryFilesystem({path: bytes(disk._files[path].data[: disk._files[path].synced]) for path in synced})


def test_metadata_record_whose_sync_failed_is_not_sent_to_brokers() -> None:
    fs = FaultyFilesystem()
    fs.error = errno.EIO
    controller = SimulatedController(POWER, fs=fs).start()
    broker = Broker(controller, 1).join()
    known = broker.end_offset
    fs.refuses = lambda number, kind, path: kind == "sync"
    with pytest.raises(Closed):
        controller.connect().call(creation("t"))
    partition = Broker(controller, 2).fetch(current_leader_epoch=controller.server.controller.leader_epoch)
    assert (partition.error_code, bytes(partition.records or b"")) == (Code.KAFKA_STORAGE_ERROR, b"")
    broker.client = controller.connect()
    assert not broker.fetch(fetch_offset=known).records
    controller.close()


def test_new_cluster_id_is_synced_before_it_is_returned() -> None:
    fs = TracingFilesystem()
    controller = SimulatedController(POWER, fs=fs).start()
    assert [op.kind for op in fs.trace if op.path.endswith("/meta.properties")] == ["write", "sync"]
    controller.close()


def test_single_broker_restarted_after_a_kill_syncs_its_metadata_log_before_it_responds() -> None:
    fs = TracingFilesystem()
    broker = SimulatedBroker(POWER, fs=fs).start()
    broker.env.run_aside = lambda work, done: None  # type: ignore[method-assign]
    broker.connect().send(creation("t"), newest(creation("t")))
    broker.broker.directory.abandon()
    broker.start()
    (topic,) = broker.connect().call(creation("t")).topics
    assert topic.error_code == Code.TOPIC_ALREADY_EXISTS
    again = SimulatedBroker(POWER, fs=after_power_cut(fs)).start()
    assert "t" in again.broker.cluster.state.topics
