"""Commands on the directory of a cluster broker, whose metadata also describes partitions of other brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.operations.adoption import AdoptionPlan, carry_out, plan_adoption
from ottla.operations.directory_audit import audit_directory
from ottla.operations.graduation import plan_graduation
from ottla.operations.replicas import check_only_replicas
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import START_MS
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.identity import DirectoryError, DirectoryIdentity
from tests.broker.membership.member_world import MemberWorld
from tests.broker.membership.test_members import created, produce

pytestmark = pytest.mark.smoke

HERE = "/broker-1"


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """Files of two stopped brokers.

    Both brokers have a replica of the topic ``both``. The empty topics ``here`` and ``there`` are on the first and on the
    second broker.
    """
    world = MemberWorld()
    first, second = world.start(1), world.start(2)
    with first.connect() as client:
        topic_id = created(client, "both", 1, 2).topic_id
        for name, broker in (("here", 1), ("there", 2)):
            assigned = [CreatableReplicaAssignment(partition_index=0, broker_ids=[broker])]
            topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assigned)
            (made,) = client.call(CreateTopicsRequest(topics=[topic])).topics
            assert made.error_code == 0
        world.sleep(1_000)
        for member in (first, second):
            with member.connect() as leader:
                produce(leader, topic_id)
        world.sleep(2_000)
    world.stop(second)
    world.stop(first)
    left = {path: bytes(data) for path, data in world.fs.files.items()}
    world.close()
    return left


@pytest.fixture
def fs(files: dict[str, bytes]) -> Iterator[MemoryFilesystem]:
    return MemoryFilesystem(files)


def test_graduate_command_refuses_the_directory_of_a_cluster_broker(fs: MemoryFilesystem) -> None:
    with pytest.raises(DirectoryError, match="a cluster of several brokers"):
        plan_graduation(fs, HERE, {})


def test_adopt_command_refuses_the_directory_of_a_cluster_broker_as_target(fs: MemoryFilesystem) -> None:
    plan = AdoptionPlan()
    with pytest.raises(DirectoryError, match="a cluster of several brokers"):
        carry_out(fs, "/broker-2", plan, DirectoryIdentity("c", 2, "d"), START_MS, lambda *_: None)


def test_adopt_command_includes_empty_topics_with_local_replicas(fs: MemoryFilesystem) -> None:
    plan = plan_adoption(fs, HERE, [], iter(bytes([n]) * 16 for n in range(9)))
    assert sorted(plan.topics) == ["both", "here"]
    assert any("1 topics of the cluster have no partition here and are not imported: there" in note for note in plan.notes)


def test_audit_ignores_partitions_of_other_brokers(fs: MemoryFilesystem) -> None:
    audit = audit_directory(fs, HERE, lambda _: None)
    assert (audit.partitions, audit.torn) == (1, [])


def test_offline_change_of_a_log_with_replicas_on_other_brokers_is_refused(fs: MemoryFilesystem) -> None:
    check_only_replicas(fs, HERE, [("here", 0)])
    for where in (("both", 0), ("unknown", 0)):
        with pytest.raises(DirectoryError, match=f"replicas of {where[0]}-0"):
            check_only_replicas(fs, HERE, [where])


@pytest.mark.parametrize("path", [HERE, "/controller"])
def test_single_broker_does_not_start_on_cluster_metadata(fs: MemoryFilesystem, path: str) -> None:
    node_id = "1" if path == HERE else "3000"
    broker = SimulatedBroker({"log.dirs": path, "node.id": node_id}, fs=fs)
    with pytest.raises(DirectoryError, match=r"process\.roles"):
        broker.start()
    assert not [name for name in fs.list_dir(path) if name.endswith("-stray")]
