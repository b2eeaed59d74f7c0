"""Edge cases of groups: deletion in several batches, repeated requests, and a coordinator that moves to another broker."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.classic.group import ClassicGroupState
from ottla.coordinator.group.requests import JoinAnswer, SyncAnswer
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.result import AnswerMember
from ottla.protocol.errors import Code
from tests.coordinator.classic_world import ClassicGroupWorld, Client, stable
from tests.coordinator.group_world import GROUP


def deleted(world: ClassicGroupWorld, at_most: int) -> int:
    """Delete the group with at most ``at_most`` offsets per batch. Returns the number of batches."""
    batches = 1
    while not world.run(world.shard.delete_group(GROUP, at_most)):
        batches += 1
    return batches


@pytest.mark.parametrize("at_most", [1, 7, 15, 19, 20, 21, 25, 26, 100])
def test_transaction_commit_does_not_restore_pending_offsets_of_a_deleted_group(at_most: int) -> None:
    """Of twenty partitions, fifteen have committed offsets and ten have pending offsets; five partitions have both."""
    world = ClassicGroupWorld()
    for index in range(15):
        world.commit(index, partition=("t", index))
    for index in range(10, 20):
        world.commit(100, producer_id=9 + index % 2, partition=("t", index))
    assert deleted(world, at_most) == -(-20 // at_most)
    assert not world.shard.exists(GROUP)
    assert not world.shard.offsets.has_pending(GROUP)
    for producer_id in (9, 10):
        world.mark(producer_id, commit=True)
    assert world.shard.group_ids() == []
    assert world.shard.offsets.of_group(GROUP) == {}
    assert world.shard.offsets.keys_of_topic("t") == []
    world.reload()
    assert world.shard.group_ids() == []
    assert world.shard.offsets.of_group(GROUP) == {}


def test_pending_offsets_of_a_group_are_listed_until_their_transactions_end() -> None:
    world = ClassicGroupWorld()
    for producer_id in (9, 10):
        world.commit(1, producer_id=producer_id)
    key = (GROUP, "t", 0)
    assert list(world.shard.offsets.pending_of(GROUP)) == [key]
    world.mark(9, commit=False)
    assert world.shard.offsets.is_unstable(key)
    world.mark(10, commit=True)
    assert not world.shard.offsets.is_unstable(key)
    assert not world.shard.offsets.has_pending(GROUP)
    assert not world.shard.offsets.pending_of(GROUP)


def completing(world: ClassicGroupWorld) -> tuple[Client, Client]:
    """Return the leader and the other member of a group in which neither has sent SyncGroup."""
    leader, follower = stable(world)
    follower.protocols = [("range", b"other")]
    world.join(follower)
    world.join(leader)
    assert world.state is ClassicGroupState.COMPLETING_REBALANCE
    return leader, follower


def test_repeated_sync_group_request_ends_the_earlier_parked_request() -> None:
    """The client may have abandoned the first request. Its parked SyncGroup must not block later requests on the connection."""
    world = ClassicGroupWorld()
    leader, follower = completing(world)
    first, second = world.sync(follower), world.sync(follower)
    assert [a.code for a in first] == [Code.REBALANCE_IN_PROGRESS]
    assert second == []
    world.sync(leader, {follower.member_id: b"mine"})
    assert [a.assignment for a in second] == [b"mine"]
    assert len(first) == 1


def test_parked_group_members_are_answered_when_the_coordinator_moves() -> None:
    world = ClassicGroupWorld()
    _, follower = completing(world)
    synced = world.sync(follower)
    new = Client(protocols=[("range", b"new")])
    joined: list[Any] = world.join(new)
    shard: GroupShard = world.shard
    for effect in shard.membership.dismissals():
        assert isinstance(effect, AnswerMember)
        effect.waiter(effect.answer)
    answers: list[JoinAnswer | SyncAnswer] = [*synced, *joined]
    assert {a.code for a in answers} <= {Code.NOT_COORDINATOR, Code.REBALANCE_IN_PROGRESS}
    assert joined[-1].code is Code.NOT_COORDINATOR
