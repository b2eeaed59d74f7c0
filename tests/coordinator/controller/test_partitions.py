"""Decisions of the controller on elections, in-sync replicas, placement and reassignments."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from ottla.coordinator.controller import elections, in_sync, reassignment
from ottla.coordinator.controller.elections import PREFERRED_ELECTION, UNCLEAN_ELECTION
from ottla.coordinator.controller.in_sync import PartitionAsked
from ottla.coordinator.controller.placement import assigned, place
from ottla.coordinator.metadata.partition_registration import NO_LEADER, RECOVERED, RECOVERING, PartitionRegistration
from ottla.protocol.errors import Code, KafkaError
from tests.coordinator.controller.world import ControllerWorld


def code_of(error: object) -> Code | None:
    assert error is None or isinstance(error, KafkaError)
    return None if error is None else error.code


def elect(world: ControllerWorld, kind: int, name: str = "t", index: int = 0) -> Code | None:
    return code_of(world.run(elections.elect_leaders(world.state, kind, [(name, [index])]))[name][index])


def test_preferred_election_returns_leadership_to_the_first_replica() -> None:
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3))
    assert elect(world, PREFERRED_ELECTION) is Code.ELECTION_NOT_NEEDED
    world.expire(1)
    assert elect(world, PREFERRED_ELECTION) is Code.PREFERRED_LEADER_NOT_AVAILABLE
    world.now_ms += 1
    world.start(1)
    assert elect(world, PREFERRED_ELECTION) is Code.PREFERRED_LEADER_NOT_AVAILABLE, "the preferred leader is alive but not in sync"
    assert alter(world, 2, (1, 2, 3)).isr == (1, 2, 3)
    epoch = world.partition().leader_epoch
    assert elect(world, PREFERRED_ELECTION) is None
    assert (world.partition().leader, world.partition().leader_epoch) == (1, epoch + 1)


def test_elections_of_unknown_topics_and_partitions_are_refused() -> None:
    world = ControllerWorld(1)
    world.topic("t", (1,))
    assert elect(world, PREFERRED_ELECTION, "ghost") is Code.UNKNOWN_TOPIC_OR_PARTITION
    for index in (1, -1):
        assert elect(world, UNCLEAN_ELECTION, "t", index) is Code.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError, match="Unknown election type 2") as error:
        elections.elect_leaders(world.state, 2, None)
    assert error.value.code is Code.INVALID_REQUEST
    assert world.run(elections.elect_leaders(world.state, PREFERRED_ELECTION, None)) == {"t": {}}, (
        "partitions that need no election are omitted"
    )


@pytest.mark.parametrize("has_elr", [False, True])
def test_unclean_leader_is_elected_only_on_request(has_elr: bool) -> None:
    world = ControllerWorld(2, has_elr=has_elr)
    world.topic("t", (1, 2))
    world.expire(2)
    assert (world.partition().isr, world.partition().elr) == ((1,), ())
    world.expire(1)
    world.now_ms += 1
    world.start(2)
    lost = world.partition()
    assert lost.leader == NO_LEADER, "the only replica with all records is offline"
    assert (lost.isr, lost.elr, lost.last_known_elr) == (((), (1,), (1,)) if has_elr else ((1,), (), ()))
    assert world.run(elections.elect_unclean_leaders(world.state, 5)) is False
    assert world.partition() == lost, "the topic does not allow unclean elections"
    assert elect(world, UNCLEAN_ELECTION) is None
    after = world.partition()
    assert (after.leader, after.isr, after.elr, after.leader_recovery_state) == (2, (2,), (), RECOVERING)
    assert after.last_known_elr == ()
    assert elect(world, UNCLEAN_ELECTION) is Code.ELECTION_NOT_NEEDED
    world.expire(2)
    assert elect(world, UNCLEAN_ELECTION) is Code.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_topic_config_enables_unclean_elections() -> None:
    world = ControllerWorld(2, has_elr=False)
    world.topic("t", (1, 2), unclean_leader_election_enable="true")
    world.expire(2)
    world.expire(1)
    world.now_ms += 1
    world.start(2)
    assert (world.partition().leader, world.partition().leader_recovery_state) == (2, RECOVERING)


def test_eligible_leader_replica_is_elected_cleanly() -> None:
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3), min_insync_replicas="3")
    world.expire(2)
    world.expire(1, 3)
    assert world.partition().leader == NO_LEADER and world.partition().elr == (1, 2, 3)
    world.now_ms += 1
    world.previous_epochs[2] = world.epoch(2)
    world.start(2)
    after = world.partition()
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), RECOVERED)
    assert after.elr == (1, 3) and after.last_known_elr == ()


def test_broker_is_no_longer_an_eligible_leader_replica_after_an_unclean_stop() -> None:
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3), min_insync_replicas="3")
    world.expire(2)
    assert world.partition().elr == (2,)
    world.now_ms += 1
    world.incarnations[2] += 1
    world.run(world.registered(2, previous_broker_epoch=-1))
    assert world.partition().elr == ()


def test_preferred_leader_rebalance_moves_a_bounded_number_of_partitions() -> None:
    world = ControllerWorld(2)
    world.topic("t", (1, 2), (1, 2), (1, 2))
    world.expire(1)
    world.now_ms += 1
    world.start(1)
    for index in range(3):
        alter(world, 2, (1, 2), index=index)
    assert world.run(elections.rebalance_leaders(world.state, 2)) is True
    assert Counter(p.leader for p in world.state.topics["t"].partitions) == {1: 2, 2: 1}
    assert world.run(elections.rebalance_leaders(world.state, 2)) is False
    assert {p.leader for p in world.state.topics["t"].partitions} == {1}


def asked_for(world: ControllerWorld, isr: tuple[int, ...], index: int = 0, **changed: Any) -> PartitionAsked:
    topic, partition = world.state.topics["t"], world.partition("t", index)
    fields = {
        "topic_id": topic.topic_id,
        "index": index,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "isr": tuple((r, world.epoch(r)) for r in isr),
        "leader_recovery_state": partition.leader_recovery_state,
    }
    return PartitionAsked(**{**fields, **changed})


def alter(world: ControllerWorld, leader: int, isr: tuple[int, ...], **changed: Any) -> PartitionRegistration:
    asked = asked_for(world, isr, **changed)
    (answer,) = world.run(in_sync.alter_partitions(world.state, leader, world.epoch(leader), [asked]))
    if isinstance(answer, KafkaError):
        raise answer
    return answer


def test_leader_shrinks_and_expands_its_in_sync_replicas() -> None:
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3), min_insync_replicas="2")
    answer = alter(world, 1, (1, 2))
    assert answer == world.partition() and (answer.isr, answer.leader_epoch, answer.partition_epoch) == ((1, 2), 0, 1)
    assert alter(world, 1, (1,)).elr == (2,)
    assert alter(world, 1, (1, 2, 3)).elr == ()
    same = alter(world, 1, (1, 2, 3))
    assert same.partition_epoch == 3, "an unchanged in-sync set keeps its partition epoch"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"topic_id": b"?" * 16}, Code.UNKNOWN_TOPIC_ID),
        ({"index": 5}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 5}, Code.NOT_CONTROLLER),
        ({"partition_epoch": 5}, Code.NOT_CONTROLLER),
        ({"leader_epoch": 0}, Code.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 0}, Code.INVALID_UPDATE_VERSION),
        ({"isr": ()}, Code.INVALID_REQUEST),
        ({"isr": ((3, -1),)}, Code.INVALID_REQUEST),
        ({"isr": ((2, -1), (2, -1))}, Code.INVALID_REQUEST),
        ({"isr": ((2, -1), (4, -1))}, Code.INVALID_REQUEST),
        ({"leader_recovery_state": RECOVERING, "isr": ((2, -1),)}, Code.INVALID_REQUEST),
        ({"leader_recovery_state": 7}, Code.INVALID_REQUEST),
        ({"isr": ((2, -1), (3, 1))}, Code.INELIGIBLE_REPLICA),
        ({"isr": ((1, -1), (2, -1))}, Code.INELIGIBLE_REPLICA),
    ],
)
def test_invalid_changes_of_in_sync_replicas_are_refused(changed: dict[str, Any], code: Code) -> None:
    world = ControllerWorld(4)
    world.topic("t", (1, 2, 3))
    world.expire(1)
    before = world.partition()
    asked = msgspec.structs.replace(asked_for(world, (2, 3)), **changed)
    (answer,) = world.run(in_sync.alter_partitions(world.state, 2, world.epoch(2), [asked]))
    assert isinstance(answer, KafkaError) and answer.code is code
    assert world.partition() == before


def test_alter_partition_is_refused_unless_the_leader_sends_it() -> None:
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3))
    with pytest.raises(KafkaError) as error:
        alter(world, 2, (2, 3))
    assert error.value.code is Code.INVALID_REQUEST
    with pytest.raises(KafkaError) as error:
        in_sync.alter_partitions(world.state, 1, world.epoch(1) - 1, [])
    assert error.value.code is Code.STALE_BROKER_EPOCH


def test_second_change_of_a_partition_in_one_alter_partition_request_is_refused() -> None:
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3))
    asked = [asked_for(world, (1, 2)), asked_for(world, (1,))]
    first, second = world.run(in_sync.alter_partitions(world.state, 1, world.epoch(1), asked))
    assert isinstance(second, KafkaError) and second.code is Code.INVALID_UPDATE_VERSION
    assert first == world.partition() and world.partition().isr == (1, 2)


def test_recovering_leader_reports_its_recovery_before_it_adds_in_sync_replicas() -> None:
    world = ControllerWorld(2, has_elr=False)
    world.topic("t", (1, 2), unclean_leader_election_enable="true")
    world.expire(2)
    world.expire(1)
    world.now_ms += 1
    world.start(2)
    with pytest.raises(KafkaError) as error:
        world.start(1)
        alter(world, 2, (1, 2))
    assert error.value.code is Code.INVALID_REQUEST, "a recovering leader is the only in-sync replica"
    answer = alter(world, 2, (1, 2), leader_recovery_state=RECOVERED)
    assert (answer.leader_recovery_state, answer.isr, answer.leader) == (RECOVERED, (1, 2), 2)


def reassign(world: ControllerWorld, replicas: tuple[int, ...] | None, name: str = "t", index: int = 0) -> Code | None:
    return code_of(world.run(reassignment.reassign(world.state, {(name, index): replicas}))[name, index])


def test_reassignment_completes_when_its_new_replicas_are_in_sync() -> None:
    world = ControllerWorld(4)
    world.topic("t", (1, 2), (1, 2))
    assert reassign(world, (3, 4)) is None
    moving = world.partition()
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (moving.isr, moving.leader, moving.leader_epoch) == ((1, 2), 1, 0)
    assert reassignment.reassigning(world.state, None) == {("t", 0): moving}
    assert reassignment.reassigning(world.state, [("t", 0), ("t", 1), ("t", 9), ("u", 0)]) == {("t", 0): moving}
    assert alter(world, 1, (1, 2, 3)).is_reassigning
    with pytest.raises(KafkaError) as error:
        alter(world, 1, (1, 2, 3, 4))
    assert error.value.code is Code.NEW_LEADER_ELECTED
    done = world.partition()
    assert (done.replicas, done.isr, done.leader, done.leader_epoch) == ((3, 4), (3, 4), 3, 1)
    assert not done.is_reassigning and not reassignment.reassigning(world.state, None)
    assert len(done.directories) == 2


def test_removal_of_a_follower_by_reassignment_raises_the_leader_epoch() -> None:
    """With an unchanged leader epoch, the removed follower would continue to fetch successfully."""
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3))
    assert reassign(world, (1, 2)) is None
    after = world.partition()
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((1, 2), (1, 2), 1, 1)


def test_cancelled_reassignment_restores_the_old_replicas() -> None:
    world = ControllerWorld(4)
    world.topic("t", (1, 2))
    assert reassign(world, None) is Code.NO_REASSIGNMENT_IN_PROGRESS
    reassign(world, (3, 2))
    alter(world, 1, (1, 2))
    assert reassign(world, None) is None
    after = world.partition()
    assert (after.replicas, after.isr, after.leader, after.is_reassigning) == ((2, 1), (1, 2), 1, False), (
        "replicas are in the new order"
    )


@pytest.mark.parametrize("is_allowed", [False, True])
def test_cancelling_a_reassignment_elects_uncleanly_only_if_allowed(is_allowed: bool) -> None:
    world = ControllerWorld(4, has_elr=False)
    world.topic("t", (1,), unclean_leader_election_enable=str(is_allowed).lower())
    reassign(world, (3, 4))
    alter(world, 1, (1, 3))
    world.expire(1)
    assert (world.partition().leader, world.partition().isr) == (3, (3,))
    if not is_allowed:
        assert reassign(world, None) is Code.INVALID_REPLICA_ASSIGNMENT
    else:
        assert reassign(world, None) is None
        assert (world.partition().replicas, world.partition().leader) == ((1,), NO_LEADER)


def test_invalid_reassignments_are_refused() -> None:
    world = ControllerWorld(2)
    world.topic("t", (1, 2))
    assert reassign(world, (1,), "ghost") is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(world, (1,), "t", 1) is Code.UNKNOWN_TOPIC_OR_PARTITION
    for replicas in ((), (1, 1), (1, 9)):
        assert reassign(world, replicas) is Code.INVALID_REPLICA_ASSIGNMENT
    assert not world.partition().is_reassigning


def test_replicas_are_spread_over_racks_and_leaders_over_brokers() -> None:
    world = ControllerWorld(6)
    for seed in range(20):
        placements = place(world.state, 60, 2, Random(seed).randrange)
        racks = [{broker % 2 for broker in replicas} for replicas in placements]
        assert all(len(rack) == 2 for rack in racks), "no rack has two replicas while another rack has none"
        assert all(len(set(replicas)) == 2 for replicas in placements)
        leaders = Counter(replicas[0] for replicas in placements)
        assert set(leaders.values()) == {10}
        followers = Counter(replicas[1] for replicas in placements)
        assert max(followers.values()) - min(followers.values()) <= 6
    assert all(sorted(replicas) == [1, 2, 3, 4, 5, 6] for replicas in place(world.state, 20, 6, Random(1).randrange))


def test_replica_placement_puts_fenced_brokers_last_and_they_never_lead() -> None:
    world = ControllerWorld(3)
    world.expire(2)
    for replicas in place(world.state, 30, 3, Random(3).randrange):
        assert sorted(replicas) == [1, 2, 3] and replicas[0] != 2
    topic = world.placed_topic("t", 3, 3)
    assert all(2 not in p.isr and p.leader != 2 for p in topic.partitions)


def test_brokers_in_shutdown_or_cordoned_get_no_new_partitions() -> None:
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3))
    world.beat(1, want_shut_down=True)
    world.beat(2, cordoned_directories=world.state.registrations.brokers[2].directories)
    assert place(world.state, 4, 1, Random(1).randrange) == [(3,)] * 4
    with pytest.raises(KafkaError):
        place(world.state, 1, 2, Random(1).randrange)


@pytest.mark.parametrize("factor", [0, -1, 3])
def test_invalid_replication_factors_are_refused(factor: int) -> None:
    with pytest.raises(KafkaError) as error:
        place(ControllerWorld(2).state, 1, factor, Random(1).randrange)
    assert error.value.code is Code.INVALID_REPLICATION_FACTOR


def test_replica_placement_fails_while_all_brokers_are_fenced() -> None:
    world = ControllerWorld(2)
    world.expire(1, 2)
    with pytest.raises(KafkaError) as error:
        place(world.state, 1, 1, Random(1).randrange)
    assert error.value.code is Code.INVALID_REPLICATION_FACTOR


def test_manual_replica_assignment_is_used_or_refused() -> None:
    world = ControllerWorld(3)
    world.expire(2)
    topic = world.topic("t", (2, 1), (1, 3))
    assert [(p.replicas, p.isr, p.leader) for p in topic.partitions] == [((2, 1), (1,), 1), ((1, 3), (1, 3), 1)]
    assert [p.replicas for p in assigned(world.state, {2: (3, 1)}, first=2, replication_factor=2)] == [(3, 1)]
    refused: list[tuple[dict[int, tuple[int, ...]], int | None]] = [
        ({0: ()}, None),
        ({0: (1, 1)}, None),
        ({0: (9,)}, None),
        ({0: (2,)}, None),
        ({0: (1, 2), 1: (1,)}, None),
        ({0: (1,)}, 2),
        ({1: (1,)}, None),
        ({0: (1,), 2: (1,)}, None),
    ]
    for assignments, factor in refused:
        with pytest.raises(KafkaError) as error:
            assigned(world.state, assignments, replication_factor=factor)
        assert error.value.code is Code.INVALID_REPLICA_ASSIGNMENT, assignments
