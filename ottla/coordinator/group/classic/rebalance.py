"""The rebalance of a classic group: waiting for members, removing late members and completing the generation.

The logic is that of Kafka's ClassicGroup. Each function changes the given group, which may be a draft, and adds records and
responses of parked requests to a `Result`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.group.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.group.records import group_record
from ottla.coordinator.group.requests import JoinAnswer, SyncAnswer
from ottla.coordinator.result import AnswerMember, Result
from ottla.protocol.errors import Code

Out = Result[None]


def supersede_join(group: ClassicGroup, member_id: str, out: Out) -> None:
    """Respond with UNKNOWN_MEMBER_ID to the parked JoinGroup of a member that joined again or was removed."""
    waiter = group.join_waiters.pop(member_id, None)
    if waiter is not None:
        out.effects.append(AnswerMember(waiter, JoinAnswer(code=Code.UNKNOWN_MEMBER_ID, member_id=member_id)))


def join_answer(group: ClassicGroup, member_id: str, *, with_members: bool = True) -> JoinAnswer:
    """Return the JoinGroup response for a member of the generation. Only the leader gets the list of members."""
    listed = group.members.values() if with_members and member_id == group.leader else ()
    return JoinAnswer(
        code=Code.NONE,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        member_id=member_id,
        members=[(m.member_id, m.instance_id, m.metadata(group.protocol)) for m in listed],
    )


def rebalance_or_complete(group: ClassicGroup, now_ms: int, initial_delay_ms: int, out: Out) -> None:
    """Handle a member's join. An empty group waits ``initial_delay_ms`` for more members (group.initial.rebalance.delay.ms)."""
    if group.state is not ClassicGroupState.PREPARING_REBALANCE:
        prepare_rebalance(group, now_ms, out, initial_delay_ms)
    maybe_complete_join(group, now_ms, out)


def prepare_rebalance(group: ClassicGroup, now_ms: int, out: Out, initial_delay_ms: int = 0) -> None:
    """Start a rebalance, which waits for every member to rejoin, at most for the members' longest rebalance timeout.

    Members that wait for an assignment get REBALANCE_IN_PROGRESS.
    """
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        group.assignments.clear()
        for member_id, waiter in group.sync_waiters.items():
            out.effects.append(AnswerMember(waiter, SyncAnswer(code=Code.REBALANCE_IN_PROGRESS)))
            group.extend_session(group.members[member_id], now_ms)
        group.sync_waiters.clear()
    group.pending_sync.clear()
    group.sync_deadline_ms = None
    if group.state is ClassicGroupState.EMPTY:
        group.begin_initial_wait(now_ms, initial_delay_ms)
    else:
        group.is_initial_rebalance = False
        group.set_rebalance_deadline(now_ms + group.rebalance_timeout_ms)
    group.move(ClassicGroupState.PREPARING_REBALANCE, now_ms)


def maybe_complete_join(group: ClassicGroup, now_ms: int, out: Out) -> None:
    if group.state is not ClassicGroupState.PREPARING_REBALANCE or not group.has_all_joined:
        return
    if group.is_initial_rebalance and group.rebalance_deadline_ms is not None and now_ms < group.rebalance_deadline_ms:
        return
    if not group.extend_initial_wait(now_ms):
        complete_join(group, now_ms, out)


def complete_join(group: ClassicGroup, now_ms: int, out: Out) -> None:
    """Begin the next generation with the members that joined. A group without members becomes Empty, which is logged."""
    joined = group.join_waiters
    group.remove([m.member_id for m in group.members.values() if m.member_id not in joined and m.instance_id is None])
    if group.members and not group.elect_joined_leader():
        # Only static members are left, and no member has rejoined. They remain members until their sessions expire.
        group.set_rebalance_deadline(now_ms + group.rebalance_timeout_ms)
        return
    group.rebalance_deadline_ms = None
    group.is_initial_rebalance = False
    group.generation += 1
    if not group.members:
        group.protocol = group.leader = None
        group.move(ClassicGroupState.EMPTY, now_ms)
        out.records.append(group_record(group, now_ms))
        return
    group.protocol = group.select_protocol()
    group.move(ClassicGroupState.COMPLETING_REBALANCE, now_ms)
    group.pending_sync = set(group.members)
    group.set_sync_deadline(now_ms + group.rebalance_timeout_ms)
    for member in group.members.values():
        group.extend_session(member, now_ms)
        waiter = joined.get(member.member_id)
        if waiter is not None:
            out.effects.append(AnswerMember(waiter, join_answer(group, member.member_id)))
    joined.clear()


def drop(group: ClassicGroup, member_ids: Iterable[str], out: Out) -> None:
    """Remove members and respond with UNKNOWN_MEMBER_ID to their parked requests."""
    for member_id in member_ids:
        supersede_join(group, member_id, out)
        waiter = group.sync_waiters.pop(member_id, None)
        if waiter is not None:
            out.effects.append(AnswerMember(waiter, SyncAnswer(code=Code.UNKNOWN_MEMBER_ID)))
    group.remove(member_ids)


def after_removal(group: ClassicGroup, now_ms: int, out: Out) -> None:
    """Start a rebalance of the remaining members, or complete a running rebalance that waited only for removed members."""
    if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
        prepare_rebalance(group, now_ms, out)
    maybe_complete_join(group, now_ms, out)


def expire(group: ClassicGroup, now_ms: int, out: Out) -> None:
    """Handle all deadlines that have passed."""
    late = [m for m, deadline in group.pending.items() if deadline <= now_ms]
    for member_id in late:
        del group.pending[member_id]
    idle = dict.fromkeys(group.expired_members(now_ms))
    if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
        group.sync_deadline_ms = None
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            idle |= dict.fromkeys(m for m in group.members if m in group.pending_sync)
    drop(group, idle, out)
    if late or idle:
        after_removal(group, now_ms, out)
    if group.state is not ClassicGroupState.PREPARING_REBALANCE or group.rebalance_deadline_ms is None:
        return
    if group.rebalance_deadline_ms <= now_ms and group.extend_initial_wait(now_ms):
        return
    if group.join_deadline_ms <= now_ms:
        complete_join(group, now_ms, out)
