"""Classic groups without a broker: rebalances, static members, commits and pending offsets."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.classic.group import HANDED_OUT_WAIT_MS, ClassicGroupState
from ottla.coordinator.group.classic.membership import MAX_MEMBER_PROTOCOLS
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.group.requests import GroupConfig
from ottla.protocol.errors import Code, KafkaError
from tests.coordinator.classic_world import T0, ClassicGroupWorld, Client, stable
from tests.coordinator.group_world import GROUP


def refused(code: Code) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, match=code.name)


def test_sole_classic_group_member_joins_and_syncs_at_once() -> None:
    world = ClassicGroupWorld()
    member = Client()
    (answer,) = world.join(member)
    assert (answer.generation, answer.leader, answer.protocol) == (1, member.member_id, "range")
    assert answer.members == [(member.member_id, None, b"sub")]
    (synced,) = world.sync(member, {member.member_id: b"all"})
    assert synced.assignment == b"all"
    assert world.state is ClassicGroupState.STABLE


def test_join_group_without_a_member_id_must_be_repeated_with_the_generated_id() -> None:
    world = ClassicGroupWorld()
    member = Client()
    (answer,) = world.join(member, needs_known_id=True)
    assert answer.code is Code.MEMBER_ID_REQUIRED
    assert world.join(member, needs_known_id=True)[0].generation == 1


def test_number_of_protocols_in_join_group_is_limited() -> None:
    world = ClassicGroupWorld()
    member = Client(protocols=[(f"p{n}", b"") for n in range(MAX_MEMBER_PROTOCOLS)])
    assert world.join(member)[0].code is Code.NONE
    with refused(Code.INCONSISTENT_GROUP_PROTOCOL):
        world.join(Client(protocols=[*member.protocols, ("one more", b"")]))


def test_first_group_generation_waits_for_members_with_a_generated_id() -> None:
    world = ClassicGroupWorld()
    first, second = Client(), Client()
    world.join(second, needs_known_id=True)
    assert world.join(first) == []
    world.tick(HANDED_OUT_WAIT_MS - 1)
    (answer,) = world.join(second, needs_known_id=True)
    assert (answer.generation, first.generation) == (1, 1)


def test_unused_member_id_delays_the_first_group_generation_briefly() -> None:
    """The client died before its second JoinGroup. The wait for it is much shorter than its session timeout of 30 minutes."""
    world = ClassicGroupWorld()
    world.join(Client(), needs_known_id=True, session_ms=1_800_000)
    member = Client()
    answers = world.join(member)
    world.tick(HANDED_OUT_WAIT_MS - 1)
    assert answers == []
    world.tick(1)
    assert [answer.generation for answer in answers] == [1]


def test_second_member_of_a_classic_group_makes_the_first_rejoin() -> None:
    world = ClassicGroupWorld()
    first, second = Client(), Client()
    world.join(first)
    world.sync(first, {first.member_id: b"all"})
    assert world.join(second) == []
    with refused(Code.REBALANCE_IN_PROGRESS):
        world.beat(first)
    (answer,) = world.join(first)
    assert (answer.generation, second.generation) == (2, 2)
    assert len(answer.members) == 2
    waiting = world.sync(second)
    assert waiting == []
    world.sync(first, {first.member_id: b"1", second.member_id: b"2"})
    assert [a.assignment for a in waiting] == [b"2"]


def test_classic_group_member_that_does_not_rejoin_is_removed() -> None:
    world = ClassicGroupWorld()
    first, _ = stable(world)
    third = Client()
    world.join(third)
    world.join(first)
    world.tick(20_000)
    assert third.generation == first.generation
    assert len(world.shard.groups[GROUP].members) == 2


def test_classic_group_member_without_heartbeats_expires_and_the_group_rebalances() -> None:
    world = ClassicGroupWorld()
    first, second = stable(world)
    world.now_ms += 9_000
    world.beat(first)
    world.tick(1_000)
    assert list(world.shard.groups[GROUP].members) == [first.member_id]
    with refused(Code.REBALANCE_IN_PROGRESS):
        world.beat(first)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.beat(second)


def test_classic_group_member_that_sends_no_sync_group_is_removed() -> None:
    world = ClassicGroupWorld()
    first, second = Client(), Client()
    world.join(first)
    world.join(second)
    world.join(first)
    waiting = world.sync(second)
    world.tick(20_000)
    assert first.member_id not in world.shard.groups[GROUP].members
    assert [a.code for a in waiting] == [Code.REBALANCE_IN_PROGRESS]


def test_leave_group_rebalances_at_once_and_the_last_leave_empties_the_group() -> None:
    world = ClassicGroupWorld()
    first, second = stable(world)
    assert world.run(world.shard.membership.leave(GROUP, [(second.member_id, None)], world.now_ms)) == [Code.NONE]
    assert world.state is ClassicGroupState.PREPARING_REBALANCE
    world.join(first)
    world.sync(first, {first.member_id: b"all"})
    assert world.run(world.shard.membership.leave(GROUP, [("nobody", None)], world.now_ms)) == [Code.UNKNOWN_MEMBER_ID]
    world.run(world.shard.membership.leave(GROUP, [(first.member_id, None)], world.now_ms))
    assert world.state is ClassicGroupState.EMPTY


def test_classic_group_refuses_a_wrong_generation_or_member() -> None:
    world = ClassicGroupWorld()
    first, _ = stable(world)
    with refused(Code.ILLEGAL_GENERATION):
        world.shard.membership.heartbeat(GROUP, first.generation - 1, first.member_id, None, world.now_ms)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.shard.membership.heartbeat(GROUP, first.generation, "stranger", None, world.now_ms)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.shard.membership.heartbeat("no-group", 1, "x", None, world.now_ms)
    with refused(Code.INVALID_SESSION_TIMEOUT):
        world.join(Client(), session_ms=1)
    with refused(Code.INCONSISTENT_GROUP_PROTOCOL):
        world.join(Client(protocols=[("other", b"")]))


def test_restarted_static_member_rejoins_without_a_rebalance() -> None:
    world = ClassicGroupWorld()
    old = Client(instance_id="i")
    world.join(old)
    world.sync(old, {old.member_id: b"all"})
    new = Client(instance_id="i")
    (answer,) = world.join(new, skip=True)
    assert (answer.generation, answer.skip_assignment) == (1, True)
    assert new.member_id != old.member_id
    with refused(Code.FENCED_INSTANCE_ID):
        world.beat(old)
    assert world.sync(new)[0].assignment == b"all"


def test_full_classic_group_refuses_new_members() -> None:
    world = ClassicGroupWorld(GroupConfig(max_size=1))
    world.join(Client())
    with refused(Code.GROUP_MAX_SIZE_REACHED):
        world.join(Client())


def test_stable_classic_group_survives_a_restart() -> None:
    world = ClassicGroupWorld()
    first, second = stable(world)
    world.reload()
    assert world.state is ClassicGroupState.STABLE
    world.beat(second)
    assert world.sync(first)[0].assignment == b"a0"
    assert world.sync(second)[0].assignment == b"a1"


def test_offset_commit_checks_member_and_generation() -> None:
    world = ClassicGroupWorld()
    with refused(Code.ILLEGAL_GENERATION):
        world.commit(5, generation=3, member="x")
    assert world.commit(5) is Code.NONE
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.commit(5, generation=3, member="x")
    first, _ = stable(world)
    assert world.commit(7, generation=first.generation, member=first.member_id) is Code.NONE
    for generation, member, code in [
        (-1, "", Code.UNKNOWN_MEMBER_ID),
        (-1, first.member_id, Code.ILLEGAL_GENERATION),
        (-1, "stranger", Code.UNKNOWN_MEMBER_ID),
        (first.generation, "", Code.UNKNOWN_MEMBER_ID),
        (first.generation - 1, first.member_id, Code.ILLEGAL_GENERATION),
    ]:
        with refused(code):
            world.commit(9, generation=generation, member=member)
    assert world.fetched() == 7
    world.reload()
    assert world.fetched() == 7


def test_txn_offset_commit_checks_member_and_generation() -> None:
    world = ClassicGroupWorld()
    first, _ = stable(world)
    assert world.commit(1, producer_id=9) is Code.NONE
    with refused(Code.ILLEGAL_GENERATION):
        world.commit(1, producer_id=9, member=first.member_id)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.commit(1, producer_id=9, generation=first.generation)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("restart", [False, True])
def test_pending_offsets_are_committed_by_the_transaction_marker(commit: bool, restart: bool) -> None:
    world = ClassicGroupWorld()
    world.commit(5)
    world.commit(10, producer_id=9)
    if restart:
        world.reload()
    assert world.fetched() == 5
    with refused(Code.UNSTABLE_OFFSET_COMMIT):
        world.fetched(stable=True)
    world.mark(9, commit=commit)
    if restart:
        world.reload()
    assert world.fetched(stable=True) == (10 if commit else 5)


def test_later_offset_commit_without_a_transaction_replaces_a_pending_offset() -> None:
    world = ClassicGroupWorld()
    world.commit(10, producer_id=9)
    world.commit(20)
    world.mark(9, commit=True)
    assert world.fetched() == 20
    world.reload()
    assert world.fetched() == 20


def test_deleting_a_group_deletes_its_offsets() -> None:
    world = ClassicGroupWorld()
    with refused(Code.GROUP_ID_NOT_FOUND):
        world.shard.delete_group(GROUP, 100)
    first, second = stable(world)
    world.commit(7, generation=first.generation, member=first.member_id)
    with refused(Code.NON_EMPTY_GROUP):
        world.shard.delete_group(GROUP, 100)
    world.run(world.shard.membership.leave(GROUP, [(first.member_id, None), (second.member_id, None)], world.now_ms))
    world.run(world.shard.delete_group(GROUP, 100))
    assert world.fetched() is None
    assert GROUP not in world.shard.groups
    world.reload()
    assert world.shard.group_ids() == []


def test_committed_offsets_expire_only_when_their_group_does_not_use_them() -> None:
    world = ClassicGroupWorld()
    week = world.config.offsets_retention_ms
    world.commit(5)
    world.commit(6, producer_id=9, partition=("t", 1))
    world.now_ms += week
    for tombstones in world.shard.expire_offsets(world.now_ms, 1, 1 << 19):
        world.run(tombstones)
    assert world.fetched() is None
    assert world.shard.offsets.has_pending(GROUP)
    world.mark(9, commit=True)
    assert world.shard.fetch(GROUP, require_stable=True).get("t", 1) is not None


def test_committed_offsets_of_deleted_topics_are_deleted() -> None:
    world = ClassicGroupWorld()
    world.commit(5)
    for tombstones in world.shard.forget_topic("t", len(world.log), 100, 1 << 19):
        world.run(tombstones)
    assert world.fetched() is None


def test_offset_commit_with_too_much_metadata_is_refused_for_its_partition() -> None:
    world = ClassicGroupWorld()
    offsets = {T0: CommittedOffset(1, -1, "x" * 5_000, 0), ("t", 1): CommittedOffset(1, -1, "", 0)}
    codes = world.run(world.shard.commit(GROUP, -1, "", None, offsets, world.now_ms, transactional=False))
    assert codes == {T0: Code.OFFSET_METADATA_TOO_LARGE, ("t", 1): Code.NONE}


def test_generated_member_id_fits_a_non_flexible_string() -> None:
    world, member = ClassicGroupWorld(), Client(instance_id="\u20ac" * 10_000)
    world.join(member)
    assert 0 < len(member.member_id.encode()) < 0x7FFF
