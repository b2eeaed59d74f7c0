"""Directory assignments of replicas, and elections after a directory was replaced or lost."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.controller.directories import assign_directories
from ottla.coordinator.controller.elections import UNCLEAN_ELECTION, elect_leaders
from ottla.coordinator.metadata.partition_registration import NO_LEADER, RECOVERED, RECOVERING
from tests.coordinator.controller.world import ControllerWorld, directory


def assign(world: ControllerWorld, broker: int, number: int) -> None:
    """Let the broker report that its replica of t-0 is in its directory ``number``."""
    asked = [(directory(broker, number), world.state.topics["t"].topic_id, 0)]
    assert world.run(assign_directories(world.state, broker, world.epoch(broker), asked)) == [None]


def start_with(world: ControllerWorld, broker: int, *numbers: int, **fields: Any) -> None:
    """Start a new process of a broker, which registers these directories and is unfenced."""
    world.now_ms += 1
    world.incarnations[broker] += 1
    world.run(world.registered(broker, directories=tuple(directory(broker, number) for number in numbers), **fields))
    assert not world.beat(broker).is_fenced


def test_replica_on_a_new_disk_leads_after_its_directory_is_reported() -> None:
    world = ControllerWorld(2)
    world.topic("t", (1, 2))
    world.expire(2)
    start_with(world, 2, 7)
    assign(world, 2, 7)
    assert world.partition().directory_of(2) == directory(2, 7)
    assert world.partition().isr == (1,), "broker 2 left the in-sync replicas when it lost its disk"


def test_last_known_leader_on_a_new_disk_is_not_elected() -> None:
    """Followers would truncate their records to follow an empty leader. Apache Kafka 4.4.0 elects it and loses the records."""
    world = ControllerWorld(2)
    world.topic("t", (1, 2))
    world.expire(2)
    world.expire(1)
    start_with(world, 1, 7)
    assert world.partition().last_known_elr == (1,)
    assign(world, 1, 7)
    world.now_ms += 1
    world.start(2)
    after = world.partition()
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (NO_LEADER, (), (), ())


@pytest.mark.parametrize("before", [(1,), (1, 7)])
def test_last_known_leader_is_elected_where_its_directory_was_not_replaced(before: tuple[int, ...]) -> None:
    """The election also happens if the broker has a second directory and has moved the replica to it."""
    world = ControllerWorld(2)
    world.topic("t", (1, 2))
    world.expire(2)
    world.expire(1)
    start_with(world, 1, *before)
    assert (world.partition().leader, world.partition().leader_recovery_state) == (1, RECOVERING)
    if 7 in before:
        assign(world, 1, 7)
        assert world.partition().leader == 1


def test_sole_replica_on_a_new_disk_is_elected_at_once() -> None:
    """No other replica has the records, so electing the empty replica loses nothing further."""
    world = ControllerWorld(1)
    world.topic("t", (1,))
    world.expire(1)
    start_with(world, 1, 7)
    assert world.partition().leader == NO_LEADER
    assign(world, 1, 7)
    assert (world.partition().leader, world.partition().leader_recovery_state) == (1, RECOVERING)


def test_replica_with_a_new_directory_is_not_elected_when_it_reports_the_directory() -> None:
    world = ControllerWorld(2)
    world.topic("t", (1, 2), unclean_leader_election_enable="true")
    world.expire(2)
    world.expire(1)
    start_with(world, 1, 7)
    assign(world, 1, 7)
    assert world.partition().leader == NO_LEADER


def test_replica_is_no_longer_an_eligible_leader_after_it_reports_a_replaced_directory() -> None:
    """The broker stopped cleanly, so its replica stays eligible until it reports that its directory was replaced."""
    world = ControllerWorld(3, server={"min.insync.replicas": "2"})
    world.topic("t", (1, 2, 3))
    epoch = world.epoch(3)
    world.expire(2)
    world.expire(3)
    assert world.partition().elr == (3,)
    start_with(world, 3, 7, previous_broker_epoch=epoch)
    assert world.partition().elr == (3,)
    assign(world, 3, 7)
    assert (world.partition().isr, world.partition().elr) == ((1,), ())


# Without eligible leader replicas (KIP-966), the in-sync set keeps its last member. Apache Kafka 4.4.0 does the same.


def emptied(*directories: int) -> ControllerWorld:
    """Restart the broker of the last in-sync replica on an empty disk with these directories. Another replica has the records."""
    world = ControllerWorld(2, has_elr=False)
    world.topic("t", (1, 2))
    world.expire(2)
    world.expire(1)
    assert (world.partition().leader, world.partition().isr) == (NO_LEADER, (1,))
    world.now_ms += 1
    world.start(2)
    assert world.partition().leader == NO_LEADER, "the empty replica may lack committed records"
    start_with(world, 1, *directories)
    return world


def test_last_in_sync_replica_without_elr_is_not_elected_on_its_first_start_with_a_new_disk() -> None:
    world = emptied(7)
    assign(world, 1, 7)
    assert (world.partition().leader, world.partition().isr) == (NO_LEADER, (1,))


def test_last_in_sync_replica_without_elr_loses_records_on_its_second_start_with_a_new_disk() -> None:
    world = emptied(7)
    assign(world, 1, 7)
    world.expire(1)
    start_with(world, 1, 7)
    after = world.partition()
    assert (after.leader, after.isr, after.leader_recovery_state) == (1, (1,), RECOVERED)


def test_last_in_sync_replica_without_elr_loses_records_on_an_empty_disk_with_the_old_directory_id() -> None:
    world = emptied(1)
    assert (world.partition().leader, world.partition().isr) == (1, (1,))


def test_uncleanly_elected_replica_with_records_leads_on_when_a_broker_with_empty_disk_returns() -> None:
    world = emptied(7)
    assign(world, 1, 7)
    world.expire(1)
    assert world.run(elect_leaders(world.state, UNCLEAN_ELECTION, [("t", [0])])) == {"t": {0: None}}
    assert (world.partition().leader, world.partition().leader_recovery_state) == (2, RECOVERING)
    start_with(world, 1, 7)
    assert world.partition().leader == 2
