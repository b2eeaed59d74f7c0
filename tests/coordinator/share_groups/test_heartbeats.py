"""Heartbeats of share group members, and the initialization of share state that they trigger."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ottla.coordinator.group.named_topics import MAX_MEMBER_TOPICS
from ottla.coordinator.group.share.requests import NO_OFFSET, check_heartbeat
from ottla.protocol.errors import Code
from tests.coordinator.group.test_consumer_heartbeats import refused
from tests.coordinator.group_world import GROUP, topic_id
from tests.coordinator.heartbeats import share_heartbeat
from tests.coordinator.share_groups.world import ShareGroupWorld, Sharer

T = topic_id("t")


@pytest.fixture
def world() -> ShareGroupWorld:
    return ShareGroupWorld()


def test_share_partitions_are_assigned_after_their_share_state_is_initialized(world: ShareGroupWorld) -> None:
    a = Sharer("a")
    answer = world.join(a)
    assert (answer.member_epoch, answer.assignment) == (2, {})
    assert [(i.state_epoch, i.start_offsets) for i in world.asked] == [(2, {T: {0: NO_OFFSET, 1: NO_OFFSET}})]
    answer = world.beat(a)
    assert (answer.member_epoch, answer.assignment) == (3, {T: frozenset({0, 1})})
    answer = world.beat(a)
    assert (answer.member_epoch, answer.assignment) == (3, None)
    assert len(world.asked) == 1


def test_partition_is_shared_by_several_share_group_members(world: ShareGroupWorld) -> None:
    sharers = [Sharer(name) for name in "abc"]
    for sharer in (*sharers, *sharers, *sharers):
        world.join(sharer) if sharer.epoch == 0 else world.beat(sharer)
    assert set.union(*(s.reads() for s in sharers)) == {0, 1}
    assert all(s.reads() for s in sharers)


def test_share_state_initialization_is_retried_after_its_interval(world: ShareGroupWorld) -> None:
    world.has_coordinator = False
    a = Sharer("a")
    world.join(a)
    world.beat(a)
    assert (a.reads(), len(world.asked)) == (set(), 1)
    world.now_ms += world.config.initialize_retry_interval_ms
    world.has_coordinator = True
    world.beat(a)
    # The first initialization leaves the start offset to share.auto.offset.reset; a repeated initialization requests offset 0.
    assert world.asked[1].start_offsets == {T: {0: 0, 1: 0}}
    world.beat(a)
    assert a.reads() == {0, 1}


def test_next_share_heartbeat_retries_a_refused_state_initialization(world: ShareGroupWorld) -> None:
    world.has_coordinator = False
    a = Sharer("a")
    world.join(a)
    world.run(world.shard.not_initialized(GROUP, world.asked[0].partitions()))
    world.beat(a)
    assert world.asked[1].start_offsets == {T: {0: NO_OFFSET, 1: NO_OFFSET}}


def test_share_group_reads_a_partition_added_to_its_topic_from_its_first_record(world: ShareGroupWorld) -> None:
    a = Sharer("a")
    world.join(a)
    world.beat(a)
    world.topics.counts["t"] = 3
    world.shard.topic_changed("t")
    world.beat(a)
    assert world.asked[1].start_offsets == {T: {2: 0}}
    world.beat(a)
    assert a.reads() == {0, 1, 2}


def test_share_group_members_that_join_within_the_assignment_interval_get_one_target_assignment(world: ShareGroupWorld) -> None:
    world.config = msgspec.structs.replace(world.config, assignment_interval_ms=1_000)
    a, b = Sharer("a"), Sharer("b")
    world.join(a)
    world.join(b)
    assert world.group.group_epoch == 3
    assert (a.epoch, b.epoch, b.reads()) == (2, 2, set())
    world.now_ms += 1_000
    world.beat(b)
    world.beat(a)
    assert a.epoch == b.epoch == 3


def test_wrong_share_heartbeat_epoch_is_fenced_except_after_a_lost_response(world: ShareGroupWorld) -> None:
    a = Sharer("a")
    world.join(a)
    world.beat(a)
    with refused(Code.FENCED_MEMBER_EPOCH, "greater member epoch (9)"):
        world.beat(a, member_epoch=9)
    with refused(Code.FENCED_MEMBER_EPOCH, "smaller member epoch (1)"):
        world.beat(a, member_epoch=1)
    assert world.beat(a, member_epoch=2).member_epoch == 3, "the previous epoch is accepted because the response may be lost"
    assert world.join(a).member_epoch == 3, "a member that rejoins does not change the group epoch"
    with refused(Code.UNKNOWN_MEMBER_ID, "Member b is not a member of group g."):
        world.beat(Sharer("b", epoch=3))
    with refused(Code.GROUP_ID_NOT_FOUND, "Share group h not found."):
        world.shard.heartbeat(share_heartbeat("h", "a", 3), world.now_ms)


def test_share_group_member_is_removed_when_it_leaves_or_its_session_expires(world: ShareGroupWorld) -> None:
    a, b = Sharer("a"), Sharer("b")
    for sharer in (a, b):
        world.join(sharer)
    world.beat(a)
    assert world.leave(b).member_epoch == -1
    assert (list(world.group.members), world.group.state_name) == (["a"], "Stable")
    world.tick(world.config.session_timeout_ms - 1)
    assert world.group.members
    world.tick(1)
    assert (world.group.members, world.group.state_name, world.group.targets) == ({}, "Empty", {})
    assert world.group.assignment_epoch == world.group.group_epoch
    assert world.group.states is not None
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.leave(b)


def test_full_share_group_refuses_a_new_member(world: ShareGroupWorld) -> None:
    world.config = msgspec.structs.replace(world.config, max_size=1)
    a = Sharer("a")
    world.join(a)
    with refused(Code.GROUP_MAX_SIZE_REACHED, "maximum capacity of 1 members"):
        world.join(Sharer("b"))
    world.beat(a)


def test_changed_subscription_replaces_the_assignment_of_a_share_group_member(world: ShareGroupWorld) -> None:
    world.topics.counts["u"] = 1
    a = Sharer("a")
    world.join(a)
    world.beat(a)
    world.beat(a, topic_names=["u"])
    assert a.reads("t") == set()
    world.beat(a)
    assert (a.reads("u"), dict(world.group.subscribers)) == ({0}, {"u": 1})


def test_topic_created_after_the_subscription_is_assigned_to_the_share_group(world: ShareGroupWorld) -> None:
    a = Sharer("a")
    world.join(a, "u")
    assert not world.asked
    world.topics.counts["u"] = 1
    world.shard.topic_changed("u")
    world.beat(a)
    world.beat(a)
    assert a.reads("u") == {0}


def test_deleted_topic_is_removed_from_the_share_group_state(world: ShareGroupWorld) -> None:
    a = Sharer("a")
    world.join(a)
    world.beat(a)
    del world.topics.counts["t"]
    for result in world.shard.forget_topics(1 << 20):
        world.run(result)
    assert world.group.states is not None
    assert not world.group.states.topic_ids()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"member_id": ""}, "Invalid member id"),
        ({"member_id": "x" * 37}, "Invalid member id"),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        (
            {"topic_names": ["t"] * (MAX_MEMBER_TOPICS + 1)},
            "A member subscribes to 3001 topics by name, and may subscribe to 3000 at most.",
        ),
        ({"topic_names": []}, "SubscribedTopicNames must be set in first request."),
        ({"topic_names": None}, "SubscribedTopicNames must be set in first request."),
        ({"epoch": -2}, "MemberEpoch is invalid."),
    ],
)
def test_invalid_share_group_heartbeats_are_refused(options: dict[str, Any], says: str) -> None:
    fields: dict[str, Any] = {"group_id": "g", "member_id": "m", "epoch": 0, "topic_names": ["t"], **options}
    with refused(Code.INVALID_REQUEST, says):
        check_heartbeat(share_heartbeat(**fields).request)
