"""Commands refuse to change a single replica of a log if other brokers have replicas of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.operations.replicas import check_only_replicas
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.identity import DirectoryError
from tests.broker.membership.member_world import MemberWorld


@pytest.fixture(scope="module")
def world() -> Iterator[MemberWorld]:
    """Directories of a stopped controller and two stopped brokers. Topic ``one`` has one replica, topic ``two`` has two."""
    made = MemberWorld()
    members = [made.start(node_id) for node_id in (1, 2)]
    with members[0].connect() as client:
        for name, factor in (("one", 1), ("two", 2)):
            topic = CreatableTopic(name=name, num_partitions=1, replication_factor=factor)
            assert client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5_000)).topics[0].error_code == 0
    for member in members:
        made.stop(member)
    made.close()
    yield made
    assert made.bugs == 0


def test_offline_change_of_a_replica_is_refused_without_a_metadata_copy(world: MemberWorld) -> None:
    """Directories of older releases have no metadata copy. Changes are refused then, as other replicas may exist."""
    fs = MemoryFilesystem({path: data for path, data in world.fs.files.items() if "/__cluster_metadata-0/" not in path})
    way = r"belongs to a broker with a remote controller, .* move /broker-1/two-0 away .* add --only-replica"
    with pytest.raises(DirectoryError, match=way):
        check_only_replicas(fs, "/broker-1", [("two", 0)])
    check_only_replicas(fs, "/broker-1", [])


def test_replicas_of_a_stopped_broker_are_read_from_its_metadata_copy(world: MemberWorld) -> None:
    check_only_replicas(world.fs, "/controller", [("one", 0), ("deleted", 0), ("one", 7)])
    with pytest.raises(DirectoryError, match=r"^other brokers have replicas of two-0\. The repaired log"):
        check_only_replicas(world.fs, "/controller", [("one", 0), ("two", 0)])
