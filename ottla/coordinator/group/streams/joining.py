"""Identifies the member that sent a heartbeat; removes members that leave or are fenced."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from ottla.coordinator.group.epochs import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from ottla.coordinator.group.modern.group import known_member, static_member
from ottla.coordinator.group.modern.sender import check_size, is_known_sender, known_static, unreleased, wrong_epoch
from ottla.coordinator.group.streams.effects import RequestShutdown
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.member import StreamsGroupMember
from ottla.coordinator.group.streams.records import RECORDS, current_record, member_record, metadata_record, target_record
from ottla.coordinator.group.streams.requests import StreamsHeartbeat, StreamsHeartbeatOutcome, owned_tasks
from ottla.coordinator.group.streams.tasks import AssignedTasks, Tasks
from ottla.coordinator.result import Effect, LogRecord, Result
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse


def member_of(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, max_size: int, records: list[LogRecord]
) -> tuple[StreamsGroupMember, StreamsGroupMember | None]:
    """Return the member as the group knows it, and the static member that it replaces, if any. Raises `KafkaError`."""
    is_joining = request.member_epoch == JOIN_EPOCH
    if is_joining:
        check_size(group, max_size, is_known=is_known_sender(group, request.member_id, request.instance_id))
    if request.instance_id is None:
        known = group.members.get(request.member_id) if is_joining else known_member(group, request.member_id)
        if known is None:
            return StreamsGroupMember(request.member_id), None
        _check_epoch(group, known, request)
        return known, None
    static = static_member(group, request.instance_id)
    if not is_joining:
        known = known_static(static, request.member_id, request.instance_id)
        _check_epoch(group, known, request)
        return known, None
    if static is None:
        return group.members.get(request.member_id) or StreamsGroupMember(request.member_id), None
    if static.member_epoch != STATIC_LEAVE_EPOCH:
        raise unreleased(static, request.member_id, request.instance_id)
    member = msgspec.structs.replace(static, member_id=request.member_id, member_epoch=JOIN_EPOCH, previous_epoch=0)
    records += [
        *RECORDS.member_tombstones(group.group_id, static.member_id),
        member_record(group.group_id, member),
        target_record(group.group_id, member.member_id, group.targets.get(static.member_id, Tasks())),
        current_record(group.group_id, member),
    ]
    return member, None if static.member_id == member.member_id else static


def with_news(member: StreamsGroupMember, beat: StreamsHeartbeat) -> StreamsGroupMember:
    """Return the member with the heartbeat's changes. Unset fields keep their value, except the endpoint of a joining member."""
    request = beat.request
    endpoint = None if request.user_endpoint is None else (request.user_endpoint.host, request.user_endpoint.port)
    says: dict[str, Any] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        "topology_epoch": None if request.topology is None else request.topology.epoch,
        "client_id": beat.client_id,
        "client_host": beat.client_host,
        "process_id": request.process_id,
        "user_endpoint": endpoint,
        "client_tags": None if request.client_tags is None else {tag.key: tag.value for tag in request.client_tags},
    }
    news = {name: value for name, value in says.items() if value is not None}
    if request.member_epoch == JOIN_EPOCH:
        news["user_endpoint"] = endpoint
    return msgspec.structs.replace(member, **news)


def _check_epoch(group: StreamsGroup, member: StreamsGroupMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Raise FENCED_MEMBER_EPOCH for a wrong epoch.

    A member may send its previous epoch if it lost the last response, but then must not own more than its assignment.
    """
    received, known = request.member_epoch, member.member_epoch
    if received in (JOIN_EPOCH, known):
        return
    owned = owned_tasks(request)
    if received < known and received == member.previous_epoch and owned is not None and member.assigned.contains(owned):
        return
    raise wrong_epoch(group, received, known)


# removing members


def leave(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> Result[StreamsHeartbeatOutcome]:
    """Handle a member that leaves at epoch -1, or a static member that leaves at -2 until it rejoins or its session expires."""
    effects: list[Effect] = []
    if request.shutdown_application:
        effects.append(RequestShutdown(group.group_id, request.member_id))
    if request.instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = known_static(static_member(group, request.instance_id), request.member_id, request.instance_id)
    if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
        away = msgspec.structs.replace(
            member, member_epoch=STATIC_LEAVE_EPOCH, assigned=member.assigned.with_epochs_reset(), revoking=AssignedTasks()
        )
        records = [current_record(group.group_id, away)]
    else:
        records = fenced(group, [member.member_id])
    answer = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch, status=[])
    return Result(StreamsHeartbeatOutcome(answer), records=records, effects=effects)


def fenced(group: StreamsGroup, member_ids: Collection[str]) -> list[LogRecord]:
    """Return the records that remove members. The group's epoch rises, so the next heartbeat computes a new target."""
    records = [record for member_id in member_ids for record in RECORDS.member_tombstones(group.group_id, member_id)]
    metadata = msgspec.structs.replace(group.metadata, epoch=group.metadata.epoch + 1)
    records.append(metadata_record(group.group_id, metadata))
    if len(member_ids) == len(group.members):
        records.append(RECORDS.target_epoch_record(group.group_id, metadata.epoch, 0))
    return records
