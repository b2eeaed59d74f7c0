"""Explains why a group has lag. Converts values of `ottla.broker.view` to those of `ottla.client`, to use the texts of ``ottla
why``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.broker.view.groups import GroupDetail, GroupHold
from ottla.broker.view.groups import GroupPosition as ViewedPosition
from ottla.broker.view.members import GroupMember as ViewedMember
from ottla.client.admin.groups import GroupDescription, GroupMember
from ottla.client.admin.positions import GroupPosition
from ottla.client.admin.transactions import OpenTransaction, TransactionDescription
from ottla.client.explain import reasons
from ottla.client.explain.diagnosis import StableOffset, WaitingGroup
from ottla.client.wording import command_for, counted


def why_group_waits(detail: GroupDetail, now_ms: int, clients: Mapping[str, str], of_cluster: Sequence[str]) -> list[str]:
    """Return lines that say why a group has lag, and what to do. ``clients`` maps transactional ids to names of clients.
    ``of_cluster`` has the connection options of the suggested commands."""
    known = [position for position in detail.positions if position.end is not None]
    described = GroupDescription(
        group_id=detail.group_id,
        group_type=detail.type,
        state=detail.state,
        epoch=detail.epoch,
        assignor=detail.assignor,
        members=[_member(member) for member in detail.members],
        positions=[_position(position) for position in known],
    )
    waiting = WaitingGroup(group=described, held=[_held(hold) for hold in detail.holds if not hold.may_be_elsewhere])
    lines = reasons.why_group_waits(waiting, now_ms, clients, of_cluster)
    explained = command_for("ottla why", detail.group_id, of_cluster)
    more = [f"{_elsewhere(hold)}; {explained} explains it" for hold in detail.holds if hold.may_be_elsewhere]
    unknown = len(detail.positions) - len(known)
    if unknown:
        more.append(f"the lag in {counted(unknown, 'partition')} is unknown, because this broker has no replica there")
    if more and not waiting.behind and not waiting.held:
        # Remove the line that says that the group has read all records, because the lag of some partitions is unknown.
        lines.pop()
    return lines + more


def _member(member: ViewedMember) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        epoch=member.epoch,
        assignment=member.assignment,
        partitions=member.partitions,
    )


def _position(position: ViewedPosition) -> GroupPosition:
    return GroupPosition(
        topic=position.topic,
        partition=position.partition,
        committed=position.committed,
        end=position.end or 0,
        lag=position.lag,
        metadata=position.metadata,
        start=position.start,
    )


def _elsewhere(hold: GroupHold) -> str:
    held, holder = hold.held, hold.holder
    return (
        f"read_committed consumers of {held.topic}:{held.partition} are held at {held.last_stable_offset:,} of"
        f" {held.high_watermark:,}: transaction of producer {holder.producer_id} epoch {holder.producer_epoch}, which this"
        " console cannot see"
    )


def _held(hold: GroupHold) -> StableOffset:
    held, holder, transaction = hold.held, hold.holder, hold.transaction
    return StableOffset(
        topic=held.topic,
        partition=held.partition,
        last_stable_offset=held.last_stable_offset,
        high_watermark=held.high_watermark,
        holder=OpenTransaction(
            topic=held.topic,
            partition=held.partition,
            producer_id=holder.producer_id,
            producer_epoch=holder.producer_epoch,
            start_offset=holder.start_offset,
            last_timestamp_ms=-1,
            coordinator_epoch=None,
        ),
        transaction=None
        if transaction is None
        else TransactionDescription(
            transactional_id=transaction.transactional_id,
            state=transaction.state,
            producer_id=transaction.producer_id,
            epoch=transaction.producer_epoch,
            timeout_ms=transaction.timeout_ms,
            start_ms=transaction.start_ms,
            partitions=transaction.partitions,
        ),
    )
