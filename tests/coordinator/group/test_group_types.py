"""Classic and consumer groups in one shard: shared group ids, requests of the other protocol, and checks of member epochs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ottla.coordinator.group.classic.group import ClassicGroupState
from ottla.coordinator.group.consumer.requests import ConsumerGroupConfig, ConsumerHeartbeatAnswer, same_for_all
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.group.requests import GroupConfig, MigrationPolicy
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code
from tests.coordinator.classic_world import T0, ClassicGroupWorld, Client
from tests.coordinator.consumer_world import in_turn
from tests.coordinator.group.test_consumer_heartbeats import refused
from tests.coordinator.group_world import GROUP, FakeTopics, topic_id
from tests.coordinator.heartbeats import consumer_heartbeat


class GroupTypesWorld(ClassicGroupWorld):
    """A shard with classic and consumer groups."""

    def __post_init__(self) -> None:
        of = same_for_all(ConsumerGroupConfig(assignors={"uniform": in_turn}))
        self.config = msgspec.structs.replace(self.config, consumer_of=of)
        self.topics = FakeTopics({"t": 2, "in": 2})
        super().__post_init__()

    def beat_consumer(self, member_id: str, epoch: int, **options: Any) -> ConsumerHeartbeatAnswer:
        if epoch == 0:
            options = {"topic_names": ["t"], "rebalance_timeout_ms": 10_000, "owned": {}, **options}
        beat = consumer_heartbeat(GROUP, member_id, epoch, **options)
        answer: ConsumerHeartbeatAnswer = self.run(self.shard.heartbeat(beat, self.now_ms, {}))
        return answer

    def commit_at(self, epoch: int, member_id: str, *, producer_id: int = -1, newest: bool = True, topic: str = "t") -> Code:
        where = (topic, 0)
        result = self.shard.commit(
            GROUP,
            epoch,
            member_id,
            None,
            {where: CommittedOffset(5, -1, "", self.now_ms)},
            self.now_ms,
            transactional=producer_id >= 0,
            has_new_error_codes=newest,
        )
        code: Code = self.run(result, producer_id)[where]
        return code

    def delete(self) -> None:
        while not self.run(self.shard.delete_group(GROUP, 10)):
            pass

    def expire(self) -> None:
        for result in self.shard.expire_offsets(self.now_ms, 10, 1 << 19):
            self.run(result)


@pytest.fixture
def world() -> GroupTypesWorld:
    return GroupTypesWorld()


def settle_classic(world: GroupTypesWorld) -> Client:
    member = Client()
    world.join(member)
    world.sync(member, {member.member_id: b""})
    return member


def test_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets(world: GroupTypesWorld) -> None:
    member = settle_classic(world)
    assert world.commit(7, generation=member.generation, member=member.member_id) is Code.NONE
    world.run(world.shard.membership.leave(GROUP, [(member.member_id, None)], world.now_ms))
    assert world.beat_consumer("a", 0).member_epoch == 2
    assert GROUP not in world.shard.groups
    view = world.shard.view(GROUP)
    assert view is not None
    assert (view.type_name, view.state_name, world.fetched()) == ("consumer", "Stable", 7)
    world.reload()
    assert (world.shard.groups, list(world.shard.consumers.groups), world.fetched()) == ({}, [GROUP], 7)


def test_group_with_only_offsets_becomes_a_consumer_group(world: GroupTypesWorld) -> None:
    world.commit(7)
    with refused(Code.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a consumer group."):
        world.beat_consumer("a", 3)
    world.beat_consumer("a", 0)
    assert world.fetched() == 7


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_classic_group_with_members_is_not_upgraded_when_upgrade_is_disabled(policy: MigrationPolicy) -> None:
    world = GroupTypesWorld(GroupConfig(migration=policy))
    settle_classic(world)
    with refused(Code.GROUP_ID_NOT_FOUND, "online upgrade is disabled"):
        world.beat_consumer("a", 0)
    with refused(Code.GROUP_ID_NOT_FOUND, "is not a consumer group."):
        world.beat_consumer("a", -1)


def test_consumer_group_refuses_classic_members_when_migration_is_disabled() -> None:
    world = GroupTypesWorld(GroupConfig(migration=MigrationPolicy.DISABLED))
    world.beat_consumer("a", 0)
    with refused(Code.INCONSISTENT_GROUP_PROTOCOL):
        world.join(Client())
    with refused(Code.INVALID_SESSION_TIMEOUT):
        world.join(Client(), session_ms=1)
    with refused(Code.UNKNOWN_MEMBER_ID, "Member a does not use the classic protocol."):
        world.shard.classic_heartbeat(GROUP, 2, "a", None, world.now_ms)


def test_leave_group_removes_members_of_a_consumer_group(world: GroupTypesWorld) -> None:
    world.beat_consumer("a", 0, instance_id="i1")
    world.beat_consumer("b", 0)
    world.beat_consumer("c", 0)
    leaving = [("", "i1"), ("b", None), ("x", None), ("x", "i1"), ("", "i9")]
    fenced, unknown = Code.FENCED_INSTANCE_ID, Code.UNKNOWN_MEMBER_ID
    assert world.run(world.shard.leave(GROUP, leaving, world.now_ms)) == [Code.NONE, Code.NONE, unknown, fenced, unknown]
    assert list(world.shard.consumers.groups[GROUP].members) == ["c"]
    before = len(world.log)
    assert world.run(world.shard.leave(GROUP, [("a", None)], world.now_ms)) == [unknown]
    assert len(world.log) == before


def test_empty_consumer_group_becomes_a_classic_group_and_keeps_its_offsets(world: GroupTypesWorld) -> None:
    world.beat_consumer("a", 0)
    world.commit_at(2, "a")
    world.beat_consumer("a", -1)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.join(Client("stranger"))
    with refused(Code.INVALID_SESSION_TIMEOUT):
        world.join(Client(), session_ms=1)
    assert list(world.shard.consumers.groups) == [GROUP], "a refused join changes nothing"
    before = len(world.log)
    settle_classic(world)
    assert not world.shard.consumers.groups
    assert [record.value for record in world.log[before : before + 3]] == [None] * 3, (
        "the old group is removed before the new one is written"
    )
    assert (world.state, world.fetched()) == (ClassicGroupState.STABLE, 5)
    world.reload()
    assert (world.state, world.fetched()) == (ClassicGroupState.STABLE, 5)


def test_offset_commit_to_a_consumer_group_checks_the_member_epoch(world: GroupTypesWorld) -> None:
    world.beat_consumer("a", 0)
    assert world.commit_at(2, "a") is Code.NONE
    with refused(Code.STALE_MEMBER_EPOCH, "Received member epoch 3 is newer than current member epoch 2."):
        world.commit_at(3, "a")
    with refused(Code.STALE_MEMBER_EPOCH, "Received member epoch 1 is older than assignment epoch 2 for partition t-0."):
        world.commit_at(1, "a")
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.commit_at(2, "b")
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.commit_at(-1, "")
    with refused(Code.UNSUPPORTED_VERSION):
        world.commit_at(2, "a", newest=False)


def test_offset_commit_at_an_older_member_epoch_is_accepted_for_a_partition_the_member_owns(world: GroupTypesWorld) -> None:
    world.beat_consumer("a", 0)
    world.beat_consumer("b", 0)
    owned = {topic_id("t"): frozenset({0})}
    world.beat_consumer("a", 2, owned={topic_id("t"): frozenset({0, 1})})
    assert world.beat_consumer("a", 2, owned=owned).member_epoch == 3
    assert world.commit_at(2, "a") is Code.NONE
    with refused(Code.STALE_MEMBER_EPOCH, "Partition u-0 is not assigned or pending revocation for member."):
        world.commit_at(2, "a", topic="u")
    with refused(Code.STALE_MEMBER_EPOCH):
        world.commit_at(2, "b")


def test_txn_offset_commit_to_a_consumer_group_checks_the_member_epoch(world: GroupTypesWorld) -> None:
    world.beat_consumer("a", 0)
    assert world.commit_at(2, "a", producer_id=1) is Code.NONE
    assert world.commit_at(-1, "", producer_id=1) is Code.NONE
    for newest, code in ((True, Code.STALE_MEMBER_EPOCH), (False, Code.ILLEGAL_GENERATION)):
        for epoch in (1, 3):
            with refused(code):
                world.commit_at(epoch, "a", producer_id=1, newest=newest)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.commit_at(2, "b", producer_id=1)
    world.mark(1, commit=True)
    assert world.fetched() == 5


def test_empty_consumer_group_accepts_only_offset_commits_without_a_member(world: GroupTypesWorld) -> None:
    world.beat_consumer("a", 0)
    world.beat_consumer("a", -1)
    assert world.commit_at(-1, "") is Code.NONE
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.commit_at(2, "a")


def test_offset_fetch_from_a_consumer_group_checks_the_member_epoch(world: GroupTypesWorld) -> None:
    world.shard.check_fetch(GROUP, "nobody", 9)
    world.beat_consumer("a", 0)
    world.shard.check_fetch(GROUP, None, -1)
    world.shard.check_fetch(GROUP, "a", 2)
    with refused(Code.STALE_MEMBER_EPOCH, "The received member epoch 1 does not match the expected member epoch 2."):
        world.shard.check_fetch(GROUP, "a", 1)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.shard.check_fetch(GROUP, "b", 2)


def test_offsets_of_a_topic_subscribed_by_a_consumer_group_are_neither_deleted_nor_expired(world: GroupTypesWorld) -> None:
    world.beat_consumer("a", 0)
    world.commit_at(2, "a")
    assert world.run(world.shard.delete_offsets(GROUP, [T0, ("u", 0)])) == {T0: Code.GROUP_SUBSCRIBED_TO_TOPIC, ("u", 0): Code.NONE}
    with refused(Code.NON_EMPTY_GROUP):
        world.delete()
    world.now_ms += GroupConfig().offsets_retention_ms
    world.expire()
    assert world.fetched() == 5, "offsets of a subscribed topic do not expire"
    world.beat_consumer("a", -1)
    world.expire()
    assert not world.shard.exists(GROUP)
    world.reload()
    assert not world.shard.exists(GROUP)


def test_deleted_consumer_group_leaves_only_tombstones(world: GroupTypesWorld) -> None:
    world.beat_consumer("a", 0)
    world.commit_at(2, "a")
    world.beat_consumer("a", -1)
    world.delete()
    assert not world.shard.exists(GROUP)
    left = {record.key: record.value for record in world.log}
    assert set(left.values()) == {None}
    world.reload()
    assert not world.shard.exists(GROUP)
    # Loading only tombstones, which compaction may leave, creates no group.
    shard = world.new_shard()
    for at, key in enumerate(left):
        shard.replay(LogRecord(key, None), at, -1, world.now_ms)
    assert not shard.consumers.groups


def test_consumer_member_session_expires_in_a_coordinator_with_groups_of_all_types(world: GroupTypesWorld) -> None:
    world.beat_consumer("a", 0)
    world.tick(45_000)
    view = world.shard.view(GROUP)
    assert view is not None
    assert view.state_name == "Empty"
