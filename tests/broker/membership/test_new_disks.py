"""A broker restarts on a new, empty disk: the controller learns the new directories and elects its replicas again (KIP-858)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import NO_LEADER, PartitionRegistration
from ottla.protocol.errors import Code
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.simulation.client import SimulatedClient
from tests.broker.membership.member_world import Member, MemberWorld
from tests.broker.membership.test_members import created, produce

SESSION_MS = 3_000
PARTITIONS = 3
UNCLEAN = 1


@pytest.fixture
def world() -> Iterator[MemberWorld]:
    made = MemberWorld({"broker.session.timeout.ms": str(SESSION_MS), "replica.lag.time.max.ms": "2000"})
    yield made
    made.close()
    assert made.bugs == 0


def state(world: MemberWorld) -> ClusterState:
    return world.controller.cluster.state


def partition(world: MemberWorld, index: int = 0) -> PartitionRegistration:
    return state(world).topics["t"].partitions[index]


def begin(world: MemberWorld, brokers: int = 3) -> tuple[dict[int, Member], bytes]:
    members = {number: world.start(number) for number in range(1, brokers + 1)}
    with members[1].connect() as client:
        topic_id: bytes = created(client, "t", PARTITIONS, brokers).topic_id
    world.sleep(200)
    return members, topic_id


def restart(world: MemberWorld, members: dict[int, Member], number: int) -> None:
    members[number] = world.start(number)
    world.sleep(SESSION_MS)


def write(members: dict[int, Member], broker: int, topic_id: bytes, index: int = 0) -> Code:
    with members[broker].connect() as client:
        return produce(client, topic_id, index)


def lose(world: MemberWorld, members: dict[int, Member], *numbers: int) -> None:
    """Kill the brokers one after the other, and each time wait until the controller has fenced the broker."""
    for number in numbers:
        world.kill(members.pop(number))
        world.sleep(world.controller.controller.heartbeats.session_timeout_ms + 500)
        assert state(world).registrations.brokers[number].is_fenced


def test_broker_on_a_new_disk_leads_when_the_other_brokers_stopped(world: MemberWorld) -> None:
    members, topic_id = begin(world)
    assert [write(members, partition(world, index).leader, topic_id, index) for index in range(PARTITIONS)] == [Code.NONE] * 3
    lose(world, members, 3)
    world.replace_disk(3)
    restart(world, members, 3)
    directory = members[3].server.directory_id
    for index in range(PARTITIONS):
        assert sorted(partition(world, index).isr) == [1, 2, 3]
        assert partition(world, index).directory_of(3) == directory, "the controller knows the new directory of the replica"
    lose(world, members, 1, 2)
    for index in range(PARTITIONS):
        assert partition(world, index).leader == 3
        assert write(members, 3, topic_id, index) == Code.NONE
        assert members[3].server.partitions.get("t", index).log.log_end_offset == 2
    world.stop(members[3])


def test_killed_brokers_lead_again_although_one_has_a_new_disk(world: MemberWorld) -> None:
    members, topic_id = begin(world)
    lose(world, members, 3)
    world.replace_disk(3)
    restart(world, members, 3)
    lose(world, members, 1, 2, 3)
    for number in (1, 2, 3):
        restart(world, members, number)
    assert [write(members, partition(world, index).leader, topic_id, index) for index in range(PARTITIONS)] == [Code.NONE] * 3
    for member in members.values():
        world.stop(member)


def elect_uncleanly(client: SimulatedClient) -> Code:
    asked = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    return Code(client.call(asked).replica_election_results[0].partition_result[0].error_code)


def test_partition_without_eligible_replica_needs_an_unclean_election(world: MemberWorld) -> None:
    """The last leader does not restart, and both other brokers have stopped uncleanly."""
    members, topic_id = begin(world)
    lose(world, members, 1, 2, 3)
    last = partition(world).last_known_elr[0]
    others = [number for number in (1, 2, 3) if number != last]
    for number in others:
        restart(world, members, number)
    before = partition(world)
    assert (before.leader, before.isr, before.last_known_elr) == (NO_LEADER, (), (last,))
    with members[others[0]].connect() as client:
        assert elect_uncleanly(client) == Code.NONE
    world.sleep(200)
    assert partition(world).leader in others
    assert write(members, partition(world).leader, topic_id) == Code.NONE
    for member in members.values():
        world.stop(member)


def test_last_leader_with_an_empty_disk_is_not_elected_while_other_replicas_have_records(world: MemberWorld) -> None:
    members, topic_id = begin(world)
    assert write(members, partition(world).leader, topic_id) == Code.NONE
    world.sleep(1_000)
    lose(world, members, 1, 2, 3)
    assert partition(world).last_known_elr == (3,)
    world.replace_disk(3)
    for number in (3, 1, 2):
        restart(world, members, number)
    before = partition(world)
    assert (before.leader, before.last_known_elr) == (NO_LEADER, ())
    assert before.directory_of(3) == members[3].server.directory_id
    world.stop(members.pop(3))
    with members[1].connect() as client:
        assert elect_uncleanly(client) == Code.NONE
    world.sleep(200)
    assert members[partition(world).leader].server.partitions.get("t", 0).log.log_end_offset == 1
    for member in members.values():
        world.stop(member)
