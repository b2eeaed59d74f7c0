"""Checks of offset commits and offset fetches in streams groups, and the state of a streams group in listings."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import Code, KafkaError
from tests.coordinator.streams.world import Application, StreamsGroupWorld


@pytest.fixture
def world() -> StreamsGroupWorld:
    """A streams group with two members at epoch 3. Member ``a`` has kept two of its tasks since epoch 2."""
    world, a, b = StreamsGroupWorld(), Application("a"), Application("b")
    world.join(a)
    world.join(b)
    world.settle(a, b)
    assert {m: member.member_epoch for m, member in world.group.members.items()} == {"a": 3, "b": 3}
    return world


def task_of(world: StreamsGroupWorld, member_id: str) -> int:
    return min(world.group.members[member_id].assigned.active["0"])


def commit(
    world: StreamsGroupWorld,
    member_id: str,
    epoch: int,
    partition: int,
    topic: str = "in",
    *,
    transactional: bool = False,
    new: bool = True,
) -> None:
    check = world.group.check_commit(member_id, None, epoch, transactional=transactional, has_new_error_codes=new)
    if check is not None:
        check(None, topic, partition)


def test_valid_offset_commits_to_a_streams_group_are_accepted(world: StreamsGroupWorld) -> None:
    commit(world, "a", 3, 0, "anything")
    commit(world, "a", 2, task_of(world, "a"))
    commit(world, "", -1, 0, transactional=True)


@pytest.mark.parametrize(
    ("member_id", "epoch", "topic", "code"),
    [
        ("other", 3, "in", Code.UNKNOWN_MEMBER_ID),
        ("", -1, "in", Code.UNKNOWN_MEMBER_ID),
        ("a", 4, "in", Code.STALE_MEMBER_EPOCH),
        ("a", 1, "in", Code.STALE_MEMBER_EPOCH),
        ("a", 2, "other", Code.STALE_MEMBER_EPOCH),
        ("b", 2, "in", Code.STALE_MEMBER_EPOCH),
    ],
)
def test_streams_offset_commit_with_wrong_member_epoch_or_topic_is_refused(
    world: StreamsGroupWorld, member_id: str, epoch: int, topic: str, code: Code
) -> None:
    partition = task_of(world, member_id) if member_id in world.group.members else 0
    with pytest.raises(KafkaError) as error:
        commit(world, member_id, epoch, partition, topic)
    assert error.value.code is code


def test_streams_offset_commit_for_a_task_of_another_member_is_refused(world: StreamsGroupWorld) -> None:
    with pytest.raises(KafkaError) as error:
        commit(world, "a", 2, task_of(world, "b"))
    assert error.value.code is Code.STALE_MEMBER_EPOCH


def test_streams_offset_commits_of_old_request_versions_are_refused(world: StreamsGroupWorld) -> None:
    with pytest.raises(KafkaError) as error:
        commit(world, "a", 3, 0, new=False)
    assert error.value.code is Code.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError) as error:
        commit(world, "a", 1, task_of(world, "a"), transactional=True, new=False)
    assert error.value.code is Code.ILLEGAL_GENERATION


def test_offset_fetch_from_a_streams_group_checks_the_member_epoch(world: StreamsGroupWorld) -> None:
    world.group.check_fetch(None, -1)
    world.group.check_fetch("a", 3)
    for member_id, code in (("a", Code.STALE_MEMBER_EPOCH), ("other", Code.UNKNOWN_MEMBER_ID)):
        with pytest.raises(KafkaError) as error:
            world.group.check_fetch(member_id, 2)
        assert error.value.code is code


def test_streams_group_can_be_removed_from_memory_only_without_members(world: StreamsGroupWorld) -> None:
    group = world.group
    assert (group.type_name, group.protocol_type_name, group.state_name) == ("streams", "streams", "Stable")
    assert group.topics_in_use() == {"in"}
    assert not group.is_forgettable
    for member_id in ("a", "b"):
        world.leave(Application(member_id, epoch=3))
    assert group.topics_in_use() == set()
    assert group.is_forgettable
    assert group.state_name == "Empty"
    commit(world, "", -1, 0)
