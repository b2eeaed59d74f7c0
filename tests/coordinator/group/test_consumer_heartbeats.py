"""Consumer groups (KIP-848) without a broker: joins, fencing, static members, lost responses, timeouts and changed topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from ottla.coordinator.group.consumer.group import ConsumerGroupState
from ottla.coordinator.group.consumer.heartbeat import check_heartbeat
from ottla.coordinator.group.consumer.member import ConsumerMemberState
from ottla.protocol.errors import Code, KafkaError
from tests.coordinator.consumer_world import Consumer, ConsumerGroupWorld
from tests.coordinator.group_world import GROUP, topic_id
from tests.coordinator.heartbeats import consumer_heartbeat

T = topic_id("t")


@contextmanager
def refused(code: Code, says: str = "") -> Iterator[None]:
    with pytest.raises(KafkaError) as caught:
        yield
    assert caught.value.code is code
    assert says in (caught.value.message or "")


def test_first_consumer_group_member_gets_all_partitions_in_its_first_response() -> None:
    world, a = ConsumerGroupWorld(), Consumer("a")
    answer = world.join(a)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert a.owns() == {0, 1, 2, 3}
    assert (world.group.group_epoch, world.group.assignment_epoch) == (2, 2)
    assert world.group.state is ConsumerGroupState.STABLE
    # Records of the member, group epoch, member's target, target epoch and current assignment, in Kafka's order.
    assert [int.from_bytes(r.key[:2], "big") for r in world.log if r.key] == [5, 3, 7, 6, 8]


def test_unchanged_consumer_heartbeat_writes_no_record_and_returns_no_assignment() -> None:
    world, a = ConsumerGroupWorld(), Consumer("a")
    world.join(a)
    before = len(world.log)
    assert world.beat(a, owned=None).assignment is None
    assert world.beat(a).assignment is None
    assert len(world.log) == before


def test_full_consumer_heartbeat_gets_the_whole_assignment() -> None:
    world, a = ConsumerGroupWorld(), Consumer("a")
    world.join(a)
    answer = world.beat(a, topic_names=["t"], rebalance_timeout_ms=30_000, owned={})
    assert answer.assignment == {T: {0: 2, 1: 2, 2: 2, 3: 2}}


def test_consumer_group_member_revokes_partitions_before_they_are_assigned_to_another() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a)
    assert world.join(b).assignment == {}
    assert world.group.members["b"].state is ConsumerMemberState.UNRELEASED_PARTITIONS
    assert world.group.state is ConsumerGroupState.RECONCILING
    # Member a has to revoke half of its partitions, and stays at its member epoch until it has revoked them.
    assert world.beat(a).member_epoch == 2
    assert (a.owns(), world.group.members["a"].state) == ({0, 2}, ConsumerMemberState.UNREVOKED_PARTITIONS)
    assert world.beat(a, owned=None).member_epoch == 2
    assert world.beat(a, owned={T: frozenset({0, 1, 2, 3})}).member_epoch == 2
    assert world.beat(b).assignment is None
    assert world.beat(a, owned={T: frozenset({0, 2})}).member_epoch == 3
    assert world.beat(b).assignment == {T: {1: 3, 3: 3}}
    assert world.group.state is ConsumerGroupState.STABLE
    assert world.group.members["a"].assigned == {T: {0: 2, 2: 2}}


def test_partitions_of_a_leaving_consumer_group_member_are_reassigned() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a)
    world.join(b)
    world.settle(a, b)
    assert world.leave(a).member_epoch == -1
    assert list(world.group.members) == ["b"]
    assert world.group.state is ConsumerGroupState.ASSIGNING
    world.settle(b)
    assert b.owns() == {0, 1, 2, 3}
    world.leave(b)
    assert world.group.state is ConsumerGroupState.EMPTY
    assert world.group.group_epoch == world.group.assignment_epoch
    assert not world.group.holders


def test_consumer_heartbeat_of_unknown_group_or_member_is_refused() -> None:
    world, a = ConsumerGroupWorld(), Consumer("a")
    with refused(Code.GROUP_ID_NOT_FOUND, "Consumer group g not found."):
        world.beat(a, member_epoch=5)
    with refused(Code.GROUP_ID_NOT_FOUND, "Group g not found."):
        world.leave(a)
    world.join(a)
    for epoch in (5, -1):
        with refused(Code.UNKNOWN_MEMBER_ID, "Member b is not a member of group g."):
            world.beat(Consumer("b"), member_epoch=epoch)


def test_consumer_heartbeat_without_a_member_id_gets_a_generated_id() -> None:
    world, a = ConsumerGroupWorld(), Consumer("")
    assert world.join(a).member_id == "id-1"
    assert list(world.group.members) == ["id-1"]


def test_consumer_heartbeat_with_a_wrong_epoch_is_fenced_unless_a_response_was_lost() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a)
    with refused(Code.FENCED_MEMBER_EPOCH, "greater member epoch (7)"):
        world.beat(a, member_epoch=7)
    world.join(b)
    world.beat(a)
    world.beat(a, member_epoch=2, owned={T: frozenset({0, 2})})
    assert world.group.members["a"].member_epoch == 3
    # The response with epoch 3 was lost, so the member sends its next heartbeat with epoch 2.
    assert world.beat(a, member_epoch=2, owned={T: frozenset({0})}).member_epoch == 3
    with refused(Code.FENCED_MEMBER_EPOCH, "smaller member epoch (2)"):
        world.beat(a, member_epoch=2, owned={T: frozenset({0, 1})})
    with refused(Code.FENCED_MEMBER_EPOCH, "smaller member epoch (2)"):
        world.beat(a, member_epoch=2, owned=None)
    with refused(Code.FENCED_MEMBER_EPOCH, "smaller member epoch (1)"):
        world.beat(a, member_epoch=1)


def test_consumer_group_member_rejoins_with_its_member_id() -> None:
    world, a = ConsumerGroupWorld(), Consumer("a")
    world.join(a)
    answer = world.join(a)
    assert (answer.member_epoch, a.owns()) == (2, {0, 1, 2, 3})
    assert world.group.group_epoch == 2


@pytest.mark.parametrize("comes_back", [True, False])
def test_static_consumer_group_member_keeps_its_assignment_until_its_session_ends(comes_back: bool) -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a", "i1"), Consumer("b", "i2")
    world.join(a)
    world.join(b)
    world.settle(a, b)
    before, epoch = a.owns(), world.group.group_epoch
    world.leave(a, -2)
    assert world.group.members["a"].member_epoch == -2
    world.beat(b)
    assert world.group.group_epoch == epoch, "the group does not rebalance"
    if comes_back:
        again = Consumer("a2", "i1")
        answer = world.join(again)
        assert (answer.member_epoch, again.owns()) == (epoch, before)
        assert (world.group.group_epoch, sorted(world.group.members)) == (epoch, ["a2", "b"])
        with refused(Code.FENCED_INSTANCE_ID, "was fenced by member a2."):
            world.beat(a, member_epoch=3)
    else:
        world.tick(44_999)
        world.beat(b)
        world.tick(1)
        world.settle(b)
        assert b.owns() == {0, 1, 2, 3}


def test_consumer_heartbeats_with_conflicting_or_unknown_instance_ids_are_refused() -> None:
    world, a = ConsumerGroupWorld(), Consumer("a", "i1")
    world.join(a)
    with refused(Code.UNRELEASED_INSTANCE_ID, "because the instance id is owned by a member."):
        world.join(Consumer("b", "i1"))
    with refused(Code.UNKNOWN_MEMBER_ID, "Instance id i9 is unknown."):
        world.beat(Consumer("a", "i9"), member_epoch=2)
    with refused(Code.FENCED_INSTANCE_ID):
        world.beat(Consumer("x", "i1"), member_epoch=-2)
    assert world.leave(a, -1).member_epoch == -1
    assert not world.group.static_members


def test_consumer_group_member_is_removed_when_its_session_ends() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a)
    world.join(b)
    world.settle(a, b)
    epoch = world.group.group_epoch
    world.tick(40_000)
    world.beat(b)
    world.tick(5_000)
    assert list(world.group.members) == ["b"]
    assert world.group.group_epoch == epoch + 1
    world.tick(40_000)
    assert world.group.state is ConsumerGroupState.EMPTY
    assert world.group.wake_ms is None
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.beat(b)


def test_consumer_group_member_that_does_not_revoke_in_time_is_fenced() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a, rebalance_timeout_ms=3_000)
    world.join(b)
    world.beat(a)
    for _ in range(2):
        world.tick(1_000)
        world.beat(a, owned=None)
    assert "a" in world.group.members
    world.tick(1_000)
    assert list(world.group.members) == ["b"]
    world.settle(b)
    assert b.owns() == {0, 1, 2, 3}


def test_revocation_in_time_cancels_the_revocation_timeout_of_a_consumer() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a, rebalance_timeout_ms=3_000)
    world.join(b)
    world.settle(a, b)
    world.tick(10_000)
    assert sorted(world.group.members) == ["a", "b"]


def test_consumer_group_assignment_follows_topics_that_grow_and_are_deleted() -> None:
    world, a = ConsumerGroupWorld(), Consumer("a")
    world.join(a, "t", "u")
    epoch = world.group.group_epoch
    world.topics.counts["t"] = 6
    world.beat(a)
    assert world.group.group_epoch == epoch, "the group does not know about the change yet"
    world.shard.topic_changed("t")
    world.settle(a)
    assert (a.owns(), world.group.group_epoch) == (set(range(6)), epoch + 1)
    world.topics.counts["u"] = 1
    world.shard.topic_changed("u")
    world.settle(a)
    assert a.owns("u") == {0}
    del world.topics.counts["t"]
    world.shard.topic_changed("t")
    world.settle(a)
    assert (a.owns(), a.owns("u")) == (set(), {0})
    world.shard.topic_changed("other")
    assert not world.group.is_stale


def test_unsubscribed_partitions_are_revoked_before_the_next_target_assignment() -> None:
    world, a = ConsumerGroupWorld(), Consumer("a")
    world.config = msgspec.structs.replace(world.config, assignment_interval_ms=60_000)
    world.shard = world.new_shard()
    world.topics.counts["u"] = 2
    world.join(a)
    world.beat(a, topic_names=["u"])
    # The previous target stays in force for a minute, but the member must revoke topics to which it no longer subscribes.
    assert (a.owns(), world.group.members["a"].state) == (set(), ConsumerMemberState.UNREVOKED_PARTITIONS)
    world.tick(29_000)
    world.beat(a)
    world.tick(31_000)
    world.settle(a)
    assert a.owns("u") == {0, 1}


def test_consumers_that_join_within_the_assignment_interval_share_a_target_assignment() -> None:
    world = ConsumerGroupWorld()
    world.config = msgspec.structs.replace(world.config, assignment_interval_ms=1_000)
    world.shard = world.new_shard()
    members = [Consumer(f"m{at}") for at in range(4)]
    for member in members:
        world.join(member)
    assert (world.group.group_epoch, world.group.assignment_epoch) == (5, 2)
    world.tick(1_000)
    world.settle(*members)
    assert world.group.assignment_epoch == 5
    assert [len(m.owns()) for m in members] == [1, 1, 1, 1]


def test_consumer_group_uses_the_server_assignor_of_the_majority() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a)
    world.join(b, assignor="range")
    world.settle(a, b)
    assert (a.owns(), b.owns()) == ({0, 1, 2, 3}, set())
    world.leave(b)
    world.settle(a)
    assert a.owns() == {0, 1, 2, 3}


def test_tie_between_server_assignors_is_resolved_as_in_kafka() -> None:
    """Kafka's hash maps iterate over "uniform" before "range". The order in which members joined has no influence."""
    for order in (("range", "uniform"), ("uniform", "range")):
        world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
        world.join(a, assignor=order[0])
        world.join(b, assignor=order[1])
        assert world.group.preferred_assignor() == "uniform"
        group = world.reloaded().groups[GROUP]
        assert group.preferred_assignor() == "uniform"


def test_full_consumer_group_refuses_a_new_member() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.config = msgspec.structs.replace(world.config, max_size=1)
    world.shard = world.new_shard()
    world.join(a)
    with refused(Code.GROUP_MAX_SIZE_REACHED, "The consumer group has reached its maximum capacity of 1 members."):
        world.join(b)
    world.join(a)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": {T: frozenset({1})}}, "TopicPartitions must be empty when (re-)joining."),
        ({"topic_names": None}, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_invalid_consumer_heartbeats_are_refused(changes: dict[str, Any], says: str) -> None:
    fields = {"group_id": GROUP, "member_id": "a", "rebalance_timeout_ms": 1, "topic_names": ["t"], "owned": {}}
    check_heartbeat(consumer_heartbeat(epoch=0, **fields), ["uniform"])
    given = {**fields, **changes}
    with refused(Code.INVALID_REQUEST, says):
        check_heartbeat(consumer_heartbeat(epoch=given.pop("member_epoch", 0), **given), ["uniform"])


def test_consumer_heartbeat_v0_gets_a_member_id_and_unknown_assignors_are_refused() -> None:
    beat = consumer_heartbeat(GROUP, "", 0, version=0, rebalance_timeout_ms=1, topic_names=["t"], owned={}, assignor="nobody's")
    with refused(Code.UNSUPPORTED_ASSIGNOR, "ServerAssignor nobody's is not supported. Supported assignors: uniform, range."):
        check_heartbeat(beat, ["uniform", "range"])


def test_reloaded_consumer_group_equals_the_live_group() -> None:
    world, a, b, c = ConsumerGroupWorld(), Consumer("a", "i1"), Consumer("b"), Consumer("c")
    world.join(a, assignor="range")
    world.join(b, "t", "u")
    world.beat(a)
    world.check_reloaded()
    world.settle(a, b)
    world.leave(a, -2)
    world.join(Consumer("a2", "i1"))
    world.join(c)
    world.leave(b)
    world.check_reloaded()


def test_regular_expression_subscription_assigns_matching_topics() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.topics.counts |= {"orders-1": 2, "other": 1}
    assert world.join(a, topic_names=[], topic_regex="orders-.*").member_epoch == 2
    assert (a.owns("orders-1"), a.owns("other")) == ({0, 1}, set())
    before = len(world.log)
    world.beat(a)
    assert len(world.log) == before
    # A member subscribes by another expression and a name. Topics that match both expressions are shared.
    world.join(b, "t", topic_regex=".*-1")
    world.settle(a, b)
    assert [len(c.owns("orders-1")) for c in (a, b)] == [1, 1]
    assert len(b.owns("t")) == 4
    world.topics.counts["orders-2"] = 3
    world.shard.topic_changed("orders-2")
    world.settle(a, b)
    assert a.owns("orders-2") == {0, 1, 2}
    assert world.group.regexes == {"orders-.*": {"orders-1", "orders-2"}, ".*-1": {"orders-1"}}
    del world.topics.counts["orders-2"]
    world.shard.topic_changed("orders-2")
    world.settle(a, b)
    assert a.owns("orders-2") == set()
    world.check_reloaded()
    world.beat(b, topic_regex="")
    world.settle(a, b)
    assert (len(a.owns("orders-1")), list(world.group.regexes)) == (2, ["orders-.*"])
    world.leave(a)
    assert not world.group.regexes
    assert set(world.group.topics_in_use()) == {"t"}
    world.check_reloaded()


def test_subscription_with_an_invalid_regular_expression_is_refused() -> None:
    world, a = ConsumerGroupWorld(), Consumer("a")
    with refused(Code.INVALID_REGULAR_EXPRESSION, "SubscribedTopicRegex `(` is not a valid regular expression: "):
        world.join(a, topic_names=[], topic_regex="(")
    assert not world.shard.groups
    world.join(a, topic_names=[], topic_regex="nothing-like-this")
    assert (world.group.group_epoch, a.owns()) == (1, set())
