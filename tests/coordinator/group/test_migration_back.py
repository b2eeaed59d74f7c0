"""Downgrade of consumer groups to classic groups, and members that switch protocols in either direction (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.classic.group import ClassicGroupState
from ottla.coordinator.group.consumer_protocol import read_assignment
from ottla.coordinator.group.requests import MigrationPolicy
from ottla.protocol.errors import Code
from tests.coordinator.group.test_consumer_heartbeats import refused
from tests.coordinator.group_world import GROUP
from tests.coordinator.mixed_world import (
    CONSUMER_SESSION_MS,
    COOPERATIVE,
    EAGER,
    REBALANCE_MS,
    SESSION_MS,
    ClassicClient,
    ConsumerClient,
    MixedGroupWorld,
    classic_group,
    commit,
    mixed,
)

ALL = {"t": frozenset(range(6))}


@pytest.fixture
def world() -> MixedGroupWorld:
    return MixedGroupWorld()


@pytest.mark.entry("GRP-77")
def test_consumer_group_is_downgraded_when_its_last_consumer_protocol_member_leaves(world: MixedGroupWorld) -> None:
    classic, consumer = mixed(world, assignors=(COOPERATIVE, EAGER))
    assert commit(world, classic.generation, classic.member_id) is Code.NONE
    epoch = world.shard.consumers.groups[GROUP].group_epoch
    world.leave(consumer)
    group = world.shard.groups[GROUP]
    assert (world.kind, group.state, group.generation) == ("classic", ClassicGroupState.PREPARING_REBALANCE, epoch)
    member = group.members[classic.member_id]
    assert [name for name, _ in member.protocols] == [COOPERATIVE, EAGER]
    assert group.protocol == COOPERATIVE
    assert (member.session_timeout_ms, member.rebalance_timeout_ms, group.leader) == (SESSION_MS, REBALANCE_MS, classic.member_id)
    assert world.shard.fetch(GROUP, require_stable=False).get("t", 0) is not None, "committed offsets are kept"
    assert world.classic_beat(classic) is Code.REBALANCE_IN_PROGRESS
    world.reload()
    group = world.shard.groups[GROUP]
    assert (group.state, group.generation) == (ClassicGroupState.STABLE, epoch), (
        "a reload does not restore the rebalance, as in Apache Kafka"
    )
    assert read_assignment(group.assignments[classic.member_id]).partitions == classic.owned


@pytest.mark.parametrize("how", ["left", "removed", "late"])
def test_group_becomes_classic_however_its_last_consumer_protocol_member_leaves(world: MixedGroupWorld, how: str) -> None:
    classic, consumer = mixed(world)
    if how == "left":
        world.leave(consumer)
    elif how == "removed":
        assert world.run_retried(lambda: world.shard.leave(GROUP, [("new", None)], world.now_ms)) == [Code.NONE]
    else:
        for _ in range(CONSUMER_SESSION_MS // 1_000):
            assert world.kind == "consumer"
            world.step(classic)
            world.tick(1_000)
    assert world.kind == "classic"
    world.settle([classic])
    assert classic.owned == ALL
    world.tick(SESSION_MS)
    assert world.shard.groups[GROUP].state is ClassicGroupState.EMPTY, "the sessions of classic members continue and expire"


@pytest.mark.entry("GRP-79")
@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_group_stays_a_consumer_group_when_downgrade_is_disabled(world: MixedGroupWorld, policy: MigrationPolicy) -> None:
    classic, consumer = mixed(world)
    world.restart(policy)
    world.leave(consumer)
    assert (world.kind, list(world.shard.consumers.groups[GROUP].members)) == ("consumer", [classic.member_id])
    if policy is MigrationPolicy.DISABLED:
        with refused(Code.INCONSISTENT_GROUP_PROTOCOL):
            world.join(classic)
    else:
        world.join(classic)
        synced = world.sync(classic)
        assert synced is not None
        assert read_assignment(synced.assignment).partitions == ALL


def test_consumer_group_with_too_many_classic_members_is_not_downgraded() -> None:
    world = MixedGroupWorld(options={"max_size": 1})
    consumer, classics = ConsumerClient("new"), [ClassicClient(), ClassicClient()]
    world.beat(consumer)
    world.settle([consumer, *classics])
    world.leave(consumer)
    assert world.kind == "consumer"
    world.leave_classic(classics.pop())
    assert world.kind == "classic"


def test_last_members_of_both_protocols_leave_an_empty_consumer_group(world: MixedGroupWorld) -> None:
    classic, _ = mixed(world)
    leaving = [(classic.member_id, None), ("new", None)]
    assert world.run_retried(lambda: world.shard.leave(GROUP, leaving, world.now_ms)) == [Code.NONE, Code.NONE]
    view = world.shard.view(GROUP)
    assert view is not None
    assert (view.type_name, view.state_name) == ("consumer", "Empty")


@pytest.mark.entry("GRP-78")
def test_static_classic_member_becomes_a_consumer_under_its_instance_id(world: MixedGroupWorld) -> None:
    static, other = ClassicClient(instance_id="i"), ClassicClient()
    classic_group(world, static, other)
    had = static.owned
    upgraded = ConsumerClient("new", instance_id="i")
    world.beat(upgraded)
    group = world.shard.consumers.groups[GROUP]
    assert (upgraded.owned, sorted(group.members)) == (had, sorted([other.member_id, "new"]))
    assert world.classic_beat(static) is Code.FENCED_INSTANCE_ID
    world.settle([upgraded, other])
    assert upgraded.owned == had
    assert group.classic_count == 1
    world.reload()


@pytest.mark.entry("GRP-78")
def test_static_consumer_becomes_a_classic_member_under_its_instance_id(world: MixedGroupWorld) -> None:
    static, other = ConsumerClient("c", instance_id="i"), ClassicClient()
    world.beat(static)
    world.settle([static, other])
    epoch = world.shard.consumers.groups[GROUP].group_epoch
    had = static.owned
    back = ClassicClient(instance_id="i")
    answer = world.join(back)
    assert answer is not None
    assert (answer.code, answer.generation, answer.leader) == (Code.NONE, epoch, "")
    group = world.shard.groups[GROUP]
    assert (world.kind, group.state, group.generation) == ("classic", ClassicGroupState.STABLE, epoch), "no member has to rejoin"
    assert sorted(group.members) == sorted([back.member_id, other.member_id])
    synced = world.sync(back)
    assert synced is not None
    assert read_assignment(synced.assignment).partitions == had
    assert world.classic_beat(other) is Code.NONE
    assert world.classic_beat(back) is Code.NONE
    world.reload()
    world.take_assignment(back, synced)
    world.settle([back, other])


def test_downgraded_static_member_with_a_changed_subscription_triggers_a_rebalance(world: MixedGroupWorld) -> None:
    static, other = ConsumerClient("c", instance_id="i"), ClassicClient()
    world.beat(static)
    world.settle([static, other])
    epoch = world.shard.consumers.groups[GROUP].group_epoch
    back = ClassicClient(instance_id="i", topics=("t", "u"))
    answer = world.join(back)
    assert answer is not None
    assert (answer.code, answer.generation) == (Code.NONE, 0)
    group = world.shard.groups[GROUP]
    assert (group.state, group.generation) == (ClassicGroupState.PREPARING_REBALANCE, epoch)
    with refused(Code.ILLEGAL_GENERATION):
        world.sync(back)
    world.reload()


def test_static_classic_member_replaces_its_predecessor_in_a_consumer_group(world: MixedGroupWorld) -> None:
    consumer, static = ConsumerClient("new"), ClassicClient(instance_id="i")
    world.beat(consumer)
    world.settle([consumer, static])
    had = static.owned
    restarted = ClassicClient(instance_id="i")
    world.join(restarted)
    assert world.kind == "consumer"
    assert restarted.member_id != static.member_id
    with refused(Code.FENCED_INSTANCE_ID):
        world.sync(static)
    with refused(Code.FENCED_INSTANCE_ID):
        world.join(static)
    synced = world.sync(restarted)
    assert synced is not None
    assert read_assignment(synced.assignment).partitions == had


def test_group_member_may_switch_protocols_and_keep_its_member_id(world: MixedGroupWorld) -> None:
    classic, consumer = mixed(world)
    same = ClassicClient(member_id="new", owned=dict(consumer.owned))
    world.join(same)
    group = world.shard.consumers.groups[GROUP]
    assert (world.kind, group.classic_count) == ("consumer", 2), "only static members and members that leave cause a downgrade"
    world.beat(ConsumerClient("new"))
    assert (group.classic_count, group.joins_ms, group.syncs_ms) == (1, {}, {})
    del classic


def test_rolling_group_upgrade_and_downgrade_keep_every_partition_owned_once(world: MixedGroupWorld) -> None:
    """Members switch to the consumer protocol one by one, then back.

    Every partition has at most one owner at any time, and exactly one after each reconciliation.
    """
    clients: list[Any] = [ClassicClient(assignors=(COOPERATIVE,)) for _ in range(3)]
    classic_group(world, *clients)
    for at in range(3):
        world.leave_classic(clients[at])
        clients[at] = ConsumerClient(f"c{at}")
        world.settle(clients)
        assert world.kind == "consumer"
        world.reload()
    for at in range(3):
        world.leave(clients[at])
        clients[at] = ClassicClient(assignors=(COOPERATIVE,))
        world.settle(clients)
        assert world.kind == ("classic" if at == 2 else "consumer")
        world.reload()
