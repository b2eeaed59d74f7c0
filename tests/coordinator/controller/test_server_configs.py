"""Decisions of the controller use the effective config, which includes its own server settings (KafkaConfigSchema)."""

from __future__ import annotations

import pytest

from ottla.coordinator.controller import elections, policies, reassignment
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.coordinator.metadata.metadata_delta import MetadataDelta
from ottla.coordinator.metadata.partition_registration import NO_LEADER, RECOVERING
from ottla.coordinator.result import Result
from tests.coordinator.controller.world import ControllerWorld

MIN_INSYNC, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
ELR = "eligible.leader.replicas.version"


def set_config(world: ControllerWorld, kind: int, name: str, key: str, value: str | None) -> None:
    world.run(world.state.set_configs(kind, name, {key: value}))


def fence_two(world: ControllerWorld) -> tuple[int, ...]:
    """Fence broker 2 and then broker 3, which both have replicas of t. Returns the eligible leader replicas."""
    world.expire(2)
    world.expire(3)
    assert world.partition().isr == (1,)
    return world.partition().elr


@pytest.mark.parametrize(
    ("server", "cluster", "topic", "eligible"),
    [
        ("2", None, {}, (3,)),
        ("3", None, {}, (2, 3)),
        ("1", "2", {}, (3,)),
        ("2", "1", {}, ()),
        ("2", None, {"min_insync_replicas": "1"}, ()),
        ("1", None, {"min_insync_replicas": "2"}, (3,)),
        ("9", None, {}, (2, 3)),
    ],
)
def test_eligible_leader_replicas_are_decided_by_effective_min_insync_replicas(
    server: str, cluster: str | None, topic: dict[str, str], eligible: tuple[int, ...]
) -> None:
    world = ControllerWorld(3, server={MIN_INSYNC: server})
    if cluster is not None:
        set_config(world, BROKER_RESOURCE, "", MIN_INSYNC, cluster)
    world.topic("t", (1, 2, 3), **topic)
    assert fence_two(world) == eligible


def test_replica_that_left_below_min_insync_replicas_is_elected_when_the_leader_lost_records() -> None:
    world = ControllerWorld(3, server={MIN_INSYNC: "2"})
    world.topic("t", (1, 2, 3))
    epochs = {broker: world.epoch(broker) for broker in (2, 3)}
    fence_two(world)
    world.expire(1)
    world.now_ms += 1
    world.start(1)
    assert world.partition().leader == NO_LEADER, "the last leader stopped uncleanly and may lack committed records"
    world.previous_epochs |= epochs
    world.start(3)
    assert (world.partition().leader, world.partition().isr) == (3, (3,))


def lose_last_in_sync(world: ControllerWorld) -> None:
    """Fence broker 2, then broker 1 with the last in-sync replica, and restart broker 2, which may lack records."""
    world.expire(2)
    world.expire(1)
    world.now_ms += 1
    world.start(2)


@pytest.mark.parametrize(
    ("server", "cluster", "topic", "leader"),
    [
        ("true", None, {}, 2),
        ("True", None, {}, 2),
        ("false", "true", {}, 2),
        ("true", "false", {}, NO_LEADER),
        ("true", None, {"unclean_leader_election_enable": "false"}, NO_LEADER),
        ("false", None, {"unclean_leader_election_enable": "true"}, 2),
    ],
)
def test_unclean_elections_are_decided_by_effective_config(
    server: str, cluster: str | None, topic: dict[str, str], leader: int
) -> None:
    world = ControllerWorld(2, has_elr=False, server={UNCLEAN: server})
    if cluster is not None:
        set_config(world, BROKER_RESOURCE, "", UNCLEAN, cluster)
    world.topic("t", (1, 2), **topic)
    lose_last_in_sync(world)
    assert world.partition().leader == leader
    assert (world.partition().leader_recovery_state == RECOVERING) is (leader == 2)


def test_periodic_unclean_elections_use_the_server_config() -> None:
    world = ControllerWorld(2, has_elr=False)
    world.topic("t", (1, 2))
    lose_last_in_sync(world)
    assert world.partition().leader == NO_LEADER
    set_config(world, BROKER_RESOURCE, "", UNCLEAN, "true")
    world.run(elections.elect_unclean_leaders(world.state, 5))
    assert world.partition().leader == 2


def test_cancelled_reassignment_elects_uncleanly_if_the_server_config_allows_it() -> None:
    world = ControllerWorld(3, has_elr=False, server={UNCLEAN: "true"})
    world.topic("t", (1, 2))
    world.expire(2)
    world.run(reassignment.reassign(world.state, {("t", 0): (3, 2)}))
    assert world.partition().adding_replicas == (3,)
    change = elections.change_of(world.state, world.state.topics["t"], 0, isr=(3,)).build()
    assert change is not None
    world.run(Result(None, [elections.change_record(world.state, change)]))
    answers = world.run(reassignment.reassign(world.state, {("t", 0): None}))
    assert answers["t", 0] is None
    assert world.partition().leader == 1


# Tests with min.insync.replicas as a cluster config.


def min_insync_of(world: ControllerWorld) -> dict[str, str]:
    configs = {name: own.get(MIN_INSYNC) for (kind, name), own in world.state.configs.items() if kind == BROKER_RESOURCE}
    return {name: value for name, value in configs.items() if value is not None}


def test_enabling_elr_writes_min_insync_replicas_as_a_cluster_config() -> None:
    world = ControllerWorld(2, has_elr=False)
    set_config(world, BROKER_RESOURCE, "1", MIN_INSYNC, "2")
    set_config(world, BROKER_RESOURCE, "2", "max.connections", "5")
    world.run(policies.set_features(world.state, {"transaction.version": 1}, "2"))
    assert min_insync_of(world) == {"1": "2"}, "without eligible leader replicas, a broker may override the config"
    world.run(policies.set_features(world.state, {ELR: 1}, "2"))
    assert min_insync_of(world) == {"": "2"}
    assert world.state.config_of(BROKER_RESOURCE, "2") == {"max.connections": "5"}
    assert policies.set_features(world.state, {}, "3").records == [], "the cluster keeps its value"


def test_cluster_config_min_insync_replicas_is_added_to_a_metadata_log_with_elr() -> None:
    world = ControllerWorld(1)
    assert min_insync_of(world) == {}
    world.run(policies.set_features(world.state, {}, "2"))
    assert min_insync_of(world) == {"": "2"}


def test_disabling_elr_changes_no_config() -> None:
    world = ControllerWorld(1)
    assert len(policies.set_features(world.state, {ELR: 0}, "2").records) == 1


@pytest.mark.parametrize(("kind", "name", "cleared"), [(TOPIC_RESOURCE, "t", ["t"]), (BROKER_RESOURCE, "", ["t", "u"])])
def test_elr_is_cleared_when_min_insync_replicas_changes(kind: int, name: str, cleared: list[str]) -> None:
    """With ``min.insync.replicas`` 1, the last in-sync replica commits alone, so eligible replicas may lack committed records."""
    world = ControllerWorld(3, server={MIN_INSYNC: "2"})
    for topic in ("t", "u", "v"):
        world.topic(topic, (1, 2, 3) if topic != "v" else (1,))
    fence_two(world)
    world.state.delta = delta = MetadataDelta()
    set_config(world, kind, name, MIN_INSYNC, "1")
    assert [topic for topic in "tuv" if not world.partition(topic).elr] == [*cleared, "v"]
    assert [world.state.topics_by_id[topic_id].name for topic_id in delta.partitions] == cleared, (
        "leaders learn the new partition epoch"
    )


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [(TOPIC_RESOURCE, "t", "retention.ms"), (BROKER_RESOURCE, "", UNCLEAN), (TOPIC_RESOURCE, "u", MIN_INSYNC)],
)
def test_elr_is_kept_when_other_configs_change(kind: int, name: str, key: str) -> None:
    world = ControllerWorld(3, server={MIN_INSYNC: "2"})
    for topic in ("t", "u"):
        world.topic(topic, (1, 2, 3) if topic == "t" else (1,))
    fence_two(world)
    assert len(world.state.set_configs(kind, name, {key: "1"}).records) == 1
    set_config(world, kind, name, key, "1")
    assert world.partition().elr == (3,)
