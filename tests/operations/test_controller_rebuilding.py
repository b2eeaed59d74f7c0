"""A lost controller is rebuilt from the data in the directories of its brokers."""

from __future__ import annotations

import pytest

from ottla.operations.controller_rebuilding import RebuiltController, rebuild
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.simulation.client import SimulatedClient
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.identity import DirectoryError
from tests.broker.membership.member_world import CLUSTER_ID, Member, MemberWorld
from tests.broker.membership.test_members import created, metadata, produce

pytestmark = pytest.mark.smoke

NOW_MS = 1_700_000_000_000
COPY = "__cluster_metadata-0"


class Lost:
    """A cluster of two brokers whose controller has lost its disk. Both brokers have a replica of one topic."""

    def __init__(self) -> None:
        self.world = MemberWorld()
        members = [self.world.start(node_id) for node_id in (1, 2)]
        with members[0].connect() as client:
            self.topic_id = created(client, "t", 2, 2).topic_id
        self.world.sleep(1_000)
        for member in members:
            with member.connect() as client:
                for index in (0, 1):
                    produce(client, self.topic_id, index)
        self.world.sleep(2_000)
        for member in reversed(members):
            self.world.stop(member)
        self.world.run(self.world.controller.stop())
        self.kept = {path: bytes(data) for path, data in self.fs.files.items() if path.startswith("/controller/")}
        self.fs.remove_dir("/controller")

    @property
    def fs(self) -> MemoryFilesystem:
        return self.world.fs  # type: ignore[return-value]

    def rebuild(self, *sources: str) -> RebuiltController:
        rebuilt = rebuild(self.fs, "/controller", sources or ("/broker-1", "/broker-2"), b"r" * 16, NOW_MS)
        self.world.start_controller()
        return rebuilt

    def check_serves(self) -> None:
        """Start both brokers and check that the topic still has its id and its records."""
        members = [self.world.start(node_id) for node_id in (1, 2)]
        self.world.sleep(5_000)
        with members[0].connect() as client:
            topic = metadata(client, "t", may_create=False)
            assert (topic.error_code, topic.topic_id) == (0, self.topic_id)
            leaders = [partition.leader_id for partition in topic.partitions]
            assert min(leaders) >= 1
        for index, leader in enumerate(leaders):
            with members[leader - 1].connect() as client:
                assert fetched(client, self.topic_id, index)
                assert produce(client, self.topic_id, index) == 0
        assert not [name for path in ("/broker-1", "/broker-2") for name in self.fs.list_dir(path) if name.endswith("-stray")]
        self.close(*members)

    def close(self, *members: Member) -> None:
        for member in members:
            self.world.stop(member)
        self.world.close()
        assert self.world.bugs == 0


def fetched(client: SimulatedClient, topic_id: bytes, index: int) -> bytes:
    partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])])
    return bytes(client.call(request).responses[0].partitions[0].records or b"")


def test_lost_controller_is_rebuilt_from_a_copy_of_its_log() -> None:
    lost = Lost()
    rebuilt = lost.rebuild()
    assert (rebuilt.cluster_id, rebuilt.node_id, rebuilt.topics, rebuilt.partitions) == (CLUSTER_ID, 3000, 1, 2)
    assert rebuilt.source in (f"/broker-1/{COPY}", f"/broker-2/{COPY}")
    assert rebuilt.notes == []
    assert [line for line in rebuilt.unknown if f"offset {rebuilt.end_offset} and later" in line]
    lost.check_serves()


def test_controller_is_rebuilt_from_the_metadata_copy_with_the_highest_end_offset() -> None:
    lost = Lost()
    path = f"/broker-1/{COPY}/{0:020}.log"
    whole = lost.fs.files[path]
    assert rebuild(lost.fs, "/first", ["/broker-1", "/broker-2"], b"r" * 16, NOW_MS).source == f"/broker-1/{COPY}"
    lost.fs.write_file(path, whole[: len(whole) // 2])
    rebuilt = rebuild(lost.fs, "/controller", ["/broker-1", "/broker-2"], b"r" * 16, NOW_MS)
    assert rebuilt.source == f"/broker-2/{COPY}"


def test_topics_are_rebuilt_from_partition_directories_without_a_metadata_copy() -> None:
    lost = Lost()
    for broker in ("/broker-1", "/broker-2"):
        lost.fs.remove_dir(f"{broker}/{COPY}")
    rebuilt = lost.rebuild()
    assert (rebuilt.source, rebuilt.topics, rebuilt.partitions) == ("", 1, 2)
    assert [line for line in rebuilt.unknown if line.startswith("configs of topics")]
    lost.check_serves()


def test_metadata_copy_that_was_set_aside_restores_lost_records() -> None:
    """The controller has lost the end of its metadata log, and with it the topic.

    The brokers were then started once, and set aside the topic's partitions and their copies of the metadata log.
    """
    lost = Lost()
    log = f"/controller/{COPY}/{0:020}.log"
    world = lost.world
    for path, data in lost.kept.items():
        if not path.endswith(("kafka_cleanshutdown", "recovery-point-offset-checkpoint")):
            world.fs.write_file(path, data[: len(data) // 4] if path == log else data)
    world.start_controller()
    members = [world.start(node_id) for node_id in (1, 2)]
    assert "t" not in members[0].server.cluster.state.topics
    for member in members:
        world.stop(member)
    world.run(world.controller.stop())
    world.fs.rename("/controller", "/damaged")
    plain = rebuild(lost.fs, "/plain", ["/broker-1", "/broker-2"], b"r" * 16, NOW_MS)
    assert plain.topics == 0
    (way, *_) = [note for note in plain.notes if "to use it instead: --from /broker-1" in note]
    rebuilt = lost.rebuild(way.rpartition("--from ")[2], "/broker-2")
    assert rebuilt.topics == 1
    moves = [note.rpartition("mv ")[2].split() for note in rebuilt.notes if " belongs to topic t; " in note]
    assert len(moves) == 4
    for source, target in moves:
        lost.fs.rename(source, target)
    for broker in ("/broker-1", "/broker-2"):
        for name in lost.fs.list_dir(broker):
            if name.startswith(f"{COPY}."):
                lost.fs.remove_dir(f"{broker}/{name}")
    members = [world.start(1), world.start(2)]
    world.sleep(5_000)
    with members[0].connect() as client:
        assert metadata(client, "t", may_create=False).topic_id == lost.topic_id
    lost.close(*members)


def test_controller_is_not_rebuilt_in_a_non_empty_directory() -> None:
    lost = Lost()
    lost.fs.write_file("/controller/meta.properties", b"")
    with pytest.raises(DirectoryError, match="not empty"):
        rebuild(lost.fs, "/controller", ["/broker-1"], b"r" * 16, NOW_MS)
    with pytest.raises(DirectoryError, match=r"no meta\.properties"):
        rebuild(lost.fs, "/new", ["/nothing"], b"r" * 16, NOW_MS)
