"""Commands of group and transaction coordinators return effects, such as sending markers, as plain values."""

from __future__ import annotations

from typing import Any

from ottla.coordinator.group.classic.effects import BeginGeneration, ExtendSession, ReplaceGroup, SetGroupTimer
from ottla.coordinator.group.classic.group import ClassicGroupState
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.group.requests import SyncAnswer, SyncRequest
from ottla.coordinator.result import AnswerMember, Result
from ottla.coordinator.transaction.effects import CountDecision, RememberEarlyCommit, RememberLastEpoch, SendMarkers
from ottla.coordinator.transaction.requests import Ended, ProducerIdAndEpoch
from tests.coordinator.classic_world import T0, ClassicGroupWorld, Client, stable
from tests.coordinator.group_world import GROUP
from tests.coordinator.transaction_world import ID, TransactionWorld


def end(world: TransactionWorld, who: ProducerIdAndEpoch, *, commit: bool) -> Result[Ended]:
    return world.shard.end_txn(
        ID, who, commit=commit, client_transaction_version=2, now_ms=world.now_ms, new_producer_id=world.new_producer_id
    )


def test_end_txn_result_counts_the_decision_and_sends_markers() -> None:
    world = TransactionWorld()
    who = world.init()
    world.add(who)
    world.now_ms += 25
    decided = end(world, who, commit=True)
    bumped = RememberLastEpoch(ID, who.producer_id, who.epoch + 1, who.epoch)
    assert decided.effects == [bumped, CountDecision(ID, "commit", 25), SendMarkers(ID)]
    assert end(world, who, commit=True).effects == decided.effects, "computing a result changes no state"


def test_abort_by_fencing_or_timeout_counts_the_decision_and_sends_markers() -> None:
    world = TransactionWorld()
    world.add(world.init())
    assert world.shard.init_producer_id(ID, 60_000, None, world.now_ms, world.new_producer_id).effects[1:] == [
        CountDecision(ID, "fenced", 0),
        SendMarkers(ID),
    ]
    assert world.shard.abort_timed_out(ID, world.now_ms, world.new_producer_id).effects[1:] == [
        CountDecision(ID, "timeout", 0),
        SendMarkers(ID),
    ]


def test_transaction_commands_without_a_decision_send_no_markers() -> None:
    world = TransactionWorld()
    who = world.init()
    assert world.shard.add_partitions(ID, who, [("t", 0)], world.now_ms, 2).effects == []
    assert end(world, who, commit=True).effects == [RememberEarlyCommit(ID, who.producer_id, who.epoch)]


def test_sync_group_of_the_leader_starts_the_generation_before_it_answers_members() -> None:
    world = ClassicGroupWorld()
    leader, follower = Client(), Client()
    world.join(leader)
    world.join(follower)
    world.join(leader)
    group = world.shard.groups[GROUP]
    answers: list[SyncAnswer] = []
    given = {leader.member_id: b"l", follower.member_id: b"f"}

    def sync(member: Client, assignments: dict[str, bytes]) -> Result[None]:
        request = SyncRequest(GROUP, group.generation, member.member_id, None, None, None, assignments, answers.append)
        return world.shard.sync(request, world.now_ms)

    world.run(sync(follower, {}))
    result = sync(leader, given)
    begin, *later_effects = result.effects
    assert begin == BeginGeneration(GROUP, (follower.member_id, leader.member_id), world.now_ms)
    assert [e.answer.assignment for e in later_effects if isinstance(e, AnswerMember)] == [b"f", b"l"]
    assert not answers
    assert world.state is ClassicGroupState.COMPLETING_REBALANCE


def test_removal_of_an_expired_group_member_returns_a_changed_copy_of_the_group() -> None:
    world = ClassicGroupWorld()
    (client,) = stable(world, 1)
    before = world.shard.groups[GROUP]
    late_ms = world.now_ms + 1_000_000
    ((group_id, result),) = list(world.shard.membership.tick(late_ms))
    replaced, timer = result.effects
    assert group_id == GROUP
    assert timer == SetGroupTimer(GROUP, None)
    assert isinstance(replaced, ReplaceGroup)
    assert replaced.group.members == {}
    assert list(before.members) == [client.member_id]
    assert world.shard.groups[GROUP] is before


def test_offset_commit_extends_only_the_session_of_its_member() -> None:
    world = ClassicGroupWorld()
    offsets = {T0: CommittedOffset(1, -1, "", world.now_ms)}

    def effects(generation: int, member_id: str) -> list[Any]:
        return list(world.shard.commit(GROUP, generation, member_id, None, offsets, world.now_ms, transactional=False).effects)

    assert effects(-1, "") == []
    (client,) = stable(world, 1)
    assert effects(client.generation, client.member_id) == [ExtendSession(GROUP, client.member_id, world.now_ms)]
