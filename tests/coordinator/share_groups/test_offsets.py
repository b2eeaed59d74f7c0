"""Altering and deleting the offsets of share groups by an admin client, and the group's record before and after."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.share.records import StatePartitions, TopicPartitions
from ottla.protocol.errors import Code
from tests.coordinator.group.test_consumer_heartbeats import refused
from tests.coordinator.group_world import GROUP, topic_id
from tests.coordinator.share_groups.world import ShareGroupWorld, Sharer

T = topic_id("t")
BOTH = {T: TopicPartitions("t", frozenset({0, 1}))}


@pytest.fixture
def world() -> ShareGroupWorld:
    return ShareGroupWorld()


def used(world: ShareGroupWorld) -> None:
    """Let a member join the group, read its partitions and leave."""
    a = Sharer("a")
    world.join(a)
    world.beat(a)
    world.leave(a)


def test_altering_share_group_offsets_creates_an_unknown_group(world: ShareGroupWorld) -> None:
    altered = world.run(world.shard.alter_offsets(GROUP, [("t", {0: 7, 5: 1}), ("none", {0: 0})]))
    assert altered.unknown == {"t": {5}, "none": {0}}
    assert (altered.initialization.state_epoch, altered.initialization.start_offsets) == (1, {T: {0: 7}})
    assert world.group.states == StatePartitions(initializing={T: TopicPartitions("t", frozenset({0}))})
    world.take(altered.initialization)
    assert world.group.states == StatePartitions(initialized={T: TopicPartitions("t", frozenset({0}))})
    a = Sharer("a")
    world.join(a)
    assert a.reads() == {0}
    assert world.asked[-1].start_offsets == {T: {1: 0}}


def test_altering_share_offsets_of_unknown_partitions_creates_no_group(world: ShareGroupWorld) -> None:
    assert world.run(world.shard.alter_offsets(GROUP, [("none", {0: 0}), ("t", {5: 1})])).initialization is None
    assert not world.shard.groups


def test_share_group_offsets_change_only_in_a_group_without_members(world: ShareGroupWorld) -> None:
    world.join(Sharer("a"))
    with refused(Code.NON_EMPTY_GROUP):
        world.shard.alter_offsets(GROUP, [("t", {0: 7})])
    with refused(Code.NON_EMPTY_GROUP):
        world.shard.delete_offsets(GROUP, ["t"])
    with refused(Code.NON_EMPTY_GROUP):
        world.shard.delete_all_offsets(GROUP)


def test_share_group_offset_deletion_is_requested_and_then_confirmed(world: ShareGroupWorld) -> None:
    used(world)
    deletion = world.run(world.shard.delete_offsets(GROUP, ["t", "none"]))
    assert deletion.partitions == {T: frozenset({0, 1})}
    assert {name: error.code for name, error in deletion.refusals.items()} == {"none": Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert world.group.states == StatePartitions(deleting={T: "t"})
    again = world.run(world.shard.delete_offsets(GROUP, ["t"]))
    assert again.partitions == {T: frozenset({0, 1})}, "a repeated request returns the same partitions"
    world.run(world.shard.offsets_deleted(GROUP, [T]))
    assert world.group.states == StatePartitions()
    assert not world.shard.delete_offsets(GROUP, ["t", "none"]).records, "a refused deletion writes no record"
    deletion = world.run(world.shard.delete_offsets(GROUP, ["t"]))
    assert deletion.refusals["t"].message == "There is no offset information to delete."


def test_deletion_of_all_share_offsets_returns_initialized_partitions_and_can_be_repeated(world: ShareGroupWorld) -> None:
    used(world)
    assert world.group.states == StatePartitions(initialized=BOTH)
    assert world.run(world.shard.delete_all_offsets(GROUP)) == {T: frozenset({0, 1})}
    assert world.group.states == StatePartitions(deleting={T: "t"})
    assert world.run(world.shard.delete_all_offsets(GROUP)) == {T: frozenset({0, 1})}


def test_deletion_of_all_share_group_offsets_skips_deleted_topics(world: ShareGroupWorld) -> None:
    used(world)
    del world.topics.counts["t"]
    assert world.run(world.shard.delete_all_offsets(GROUP)) == {}


def test_deleted_share_group_offsets_are_initialized_again_for_the_next_member(world: ShareGroupWorld) -> None:
    used(world)
    world.run(world.shard.delete_offsets(GROUP, ["t"]))
    world.join(Sharer("a"))
    assert world.group.states == StatePartitions(initialized=BOTH)


def test_offset_change_of_an_unknown_share_group_is_refused(world: ShareGroupWorld) -> None:
    with refused(Code.GROUP_ID_NOT_FOUND, "Group g not found."):
        world.shard.delete_offsets(GROUP, ["t"])
    assert world.run(world.shard.offsets_deleted(GROUP, [T])) is None
    assert world.run(world.shard.initialized(GROUP, {T: frozenset({0})})) is None
    assert not world.log
