"""Decides a heartbeat (GroupMetadataManager.streamsGroupHeartbeat of Kafka). It answers five questions, in this order.

1. Is the sender a member with the right epoch, or may it join? A static member takes its predecessor's place (`joining`).
2. Is the member's topology the group's, and do the cluster's topics fit it (`configuration`)?
3. Has anything changed that targets depend on: members, topics, configs? Then the group's epoch rises.
4. Is there a target assignment of the group's epoch? If not, it is computed, once for all members (`target`).
5. Has the member reached its target? If not, it makes the next step (`reconciliation`).

Functions in this module change nothing that is logged: they return the records of the changes.
"""

from __future__ import annotations

import msgspec

from ottla.coordinator.group.epochs import JOIN_EPOCH
from ottla.coordinator.group.modern.effects import MemberSeen
from ottla.coordinator.group.streams.answers import endpoint_partitions
from ottla.coordinator.group.streams.configuration import ConfiguredTopology, configure
from ottla.coordinator.group.streams.effects import (
    DelayFirstAssignment,
    KeepTaskOffsets,
    RaiseEndpointEpoch,
    RequestShutdown,
)
from ottla.coordinator.group.streams.group import MemberTaskOffsets, StreamsGroup
from ottla.coordinator.group.streams.joining import member_of, with_news
from ottla.coordinator.group.streams.member import StreamsGroupMember
from ottla.coordinator.group.streams.reconciliation import reconciled
from ottla.coordinator.group.streams.records import (
    NO_EPOCH,
    GroupMetadata,
    current_record,
    member_record,
    metadata_record,
    topology_record,
)
from ottla.coordinator.group.streams.requests import StreamsGroupConfig, StreamsHeartbeat, StreamsHeartbeatOutcome, owned_tasks
from ottla.coordinator.group.streams.status import StatusCode, status
from ottla.coordinator.group.streams.target import TaskTarget, next_target
from ottla.coordinator.group.streams.tasks import Tasks, task_ids, without_epochs
from ottla.coordinator.group.streams.topology import Topology, required_topics_hash, topology_from_heartbeat
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.result import Effect, LogRecord, Result
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TaskOffset,
)


def heartbeat(
    group: StreamsGroup, beat: StreamsHeartbeat, config: StreamsGroupConfig, topics: GroupTopics, now_ms: int, *, is_new_group: bool
) -> Result[StreamsHeartbeatOutcome]:
    """Handle the heartbeat of a member that stays, or joins at epoch 0. Raises `KafkaError`."""
    return _Beat(group, beat, config, topics, now_ms, is_new_group).result()


class _Beat:
    def __init__(
        self,
        group: StreamsGroup,
        beat: StreamsHeartbeat,
        config: StreamsGroupConfig,
        topics: GroupTopics,
        now_ms: int,
        is_new_group: bool,
    ) -> None:
        self._group, self._beat, self._config, self._topics = group, beat, config, topics
        self._now_ms, self._is_new_group = now_ms, is_new_group
        self._request = beat.request
        self._is_joining = self._request.member_epoch == JOIN_EPOCH
        self._records: list[LogRecord] = []
        self._effects: list[Effect] = []
        self._statuses: list[Status] = []

    def result(self) -> Result[StreamsHeartbeatOutcome]:
        group, request = self._group, self._request
        before, replaced = member_of(group, request, self._config.max_size, self._records)
        member = with_news(before, self._beat)
        changes_target = member != before
        if changes_target:
            self._records.append(member_record(group.group_id, member))
            if request.instance_id is not None:
                changes_target = _matters_to_targets(before, member)
        topology = self._topology()
        if group.topology is not None and member.topology_epoch < group.topology.epoch:
            detail = f"The member's topology epoch {member.topology_epoch} is behind the group's, which is {group.topology.epoch}."
            self._statuses.append(status(StatusCode.STALE_TOPOLOGY, detail))
        configured, topics_hash = self._configured(topology)
        self._check_owned(configured)
        self._keep_task_offsets(member)
        metadata = self._metadata(topology, configured, topics_hash, changes_target)
        if not group.members and self._config.initial_rebalance_delay_ms > 0 and group.delayed_until_ms is None:
            until_ms = self._now_ms + self._config.initial_rebalance_delay_ms
            self._effects.append(DelayFirstAssignment(group.group_id, until_ms))
            target = TaskTarget(group.assignment_epoch, {}, delayed_by="initial rebalance delay")
        else:
            target = next_target(group, metadata, configured, self._config, self._now_ms, member)
        self._records += target.records
        if target.delayed_by is not None:
            self._statuses.append(status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed by the {target.delayed_by}."))
        member = self._reconciled(member, target)
        self._effects.append(MemberSeen(group.group_id, member.member_id, self._now_ms))
        if request.shutdown_application:
            self._effects.append(RequestShutdown(group.group_id, member.member_id))
        return self._answered(before, member, replaced, configured)

    # checking topology and tasks

    def _topology(self) -> Topology:
        """Return the group's topology, sent by its first member. As in Kafka, a topology cannot change yet. Raises
        INVALID_REQUEST."""
        sent, known = self._request.topology, self._group.topology
        if sent is None:
            if known is None:
                raise KafkaError(Code.UNKNOWN_SERVER_ERROR, f"Group {self._group.group_id} has members and no topology.")
            return known
        topology = topology_from_heartbeat(sent)
        if known is None:
            self._records.append(topology_record(self._group.group_id, topology))
            return topology
        if topology.epoch >= known.epoch and topology != known:
            raise KafkaError(Code.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    def _configured(self, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """Return the configured topology and the hash of its topics. The group caches both until topology or hash change."""
        group = self._group
        topics_hash = required_topics_hash(topology, self._topics)
        if group.configured is None or group.topology is None or group.configured_hash != topics_hash:
            configured = configure(topology, self._topics)
            if group.topology is None:
                return configured, topics_hash
            group.configured, group.configured_hash = configured, topics_hash
        return group.configured, topics_hash

    def _check_owned(self, configured: ConfiguredTopology) -> None:
        if configured.subtopologies is None or not configured.is_ready:
            return
        request = self._request
        for tasks in (*(request.active_tasks or ()), *(request.standby_tasks or ()), *(request.warmup_tasks or ())):
            one = configured.subtopologies.get(tasks.subtopology_id)
            if one is None:
                raise _invalid(f"Subtopology {tasks.subtopology_id} does not exist in the topology.")
            for partition in tasks.partitions:
                if not 0 <= partition < one.task_count:
                    raise _invalid(f"Subtopology {tasks.subtopology_id} has {one.task_count} tasks, and no task {partition}.")

    def _keep_task_offsets(self, member: StreamsGroupMember) -> None:
        request = self._request
        if request.task_offsets is None and request.task_end_offsets is None:
            return
        known = self._group.task_offsets.get(member.member_id, MemberTaskOffsets())
        offsets = MemberTaskOffsets(
            known.offsets if request.task_offsets is None else _by_task(request.task_offsets),
            known.end_offsets if request.task_end_offsets is None else _by_task(request.task_end_offsets),
        )
        self._effects.append(KeepTaskOffsets(self._group.group_id, member.member_id, offsets))

    # raising the group's epoch, reconciling the member

    def _metadata(
        self, topology: Topology, configured: ConfiguredTopology, topics_hash: int, changes_target: bool
    ) -> GroupMetadata:
        known = self._group.metadata
        metadata = msgspec.structs.replace(
            known,
            metadata_hash=topics_hash,
            validated_topology_epoch=topology.epoch if configured.is_ready else NO_EPOCH,
            assignment_configs=self._config.assignment_configs(),
        )
        if not changes_target and metadata == known:
            return known
        metadata = msgspec.structs.replace(metadata, epoch=known.epoch + 1)
        self._records.append(metadata_record(self._group.group_id, metadata))
        return metadata

    def _reconciled(self, member: StreamsGroupMember, target: TaskTarget) -> StreamsGroupMember:
        if member.is_reconciled_to(target.epoch):
            return member
        wanted = target.tasks.get(member.member_id, Tasks())
        changed = reconciled(member, target.epoch, wanted, self._group.holders, owned_tasks(self._request))
        if changed != member:
            self._records.append(current_record(self._group.group_id, changed))
        return changed

    # building the heartbeat response

    def _answered(
        self,
        before: StreamsGroupMember,
        member: StreamsGroupMember,
        replaced: StreamsGroupMember | None,
        configured: ConfiguredTopology,
    ) -> Result[StreamsHeartbeatOutcome]:
        answer = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._config.heartbeat_interval_ms,
            task_offset_interval_ms=self._config.task_offset_interval_ms,
            acceptable_recovery_lag=self._config.acceptable_recovery_lag,
        )
        has_new_tasks = member.assigned != before.assigned
        if self._is_joining or has_new_tasks:
            answer.active_tasks = task_ids(TaskIds, without_epochs(member.assigned.active))
            answer.standby_tasks = task_ids(TaskIds, member.assigned.standby)
            answer.warmup_tasks = task_ids(TaskIds, member.assigned.warmup)
        self._add_endpoints(answer, before, member, replaced, configured)
        if configured.problem is not None:
            self._statuses.append(configured.problem)
        self._add_shutdown_status(member)
        self._add_missing_tags_status(member)
        answer.status = self._statuses
        outcome = StreamsHeartbeatOutcome(answer, configured.missing_topics)
        return Result(outcome, records=self._records, effects=self._effects)

    def _add_endpoints(
        self,
        answer: StreamsGroupHeartbeatResponse,
        before: StreamsGroupMember,
        member: StreamsGroupMember,
        replaced: StreamsGroupMember | None,
        configured: ConfiguredTopology,
    ) -> None:
        """Send the endpoints to a member that does not know their latest epoch.

        As in Kafka, a group's endpoint epoch does not rise before the group is logged.
        """
        group = self._group
        epoch = group.endpoint_epoch
        serves_others = member.assigned != before.assigned and member.user_endpoint is not None
        if member.user_endpoint != before.user_endpoint or serves_others:
            epoch += 1
            if not self._is_new_group:
                self._effects.append(RaiseEndpointEpoch(group.group_id))
        if epoch != self._request.endpoint_information_epoch:
            left_out = {member.member_id, "" if replaced is None else replaced.member_id}
            members = [one for member_id, one in group.members.items() if member_id not in left_out]
            answer.partitions_by_user_endpoint = endpoint_partitions([*members, member], configured, self._topics)
        if not self._is_new_group:
            answer.endpoint_information_epoch = epoch

    def _add_shutdown_status(self, member: StreamsGroupMember) -> None:
        asking = self._group.shutdown_member_id
        if asking is None and self._request.shutdown_application:
            asking = member.member_id
        if asking is not None:
            detail = f"Member {asking} met a fatal error, and requested a shutdown of the application."
            self._statuses.append(status(StatusCode.SHUTDOWN_APPLICATION, detail))

    def _add_missing_tags_status(self, member: StreamsGroupMember) -> None:
        missing = [tag for tag in self._config.rack_aware_assignment_tags if tag not in member.client_tags]
        if missing and self._beat.version >= 1:
            detail = (
                f"Client tags that standbys are to be spread by are missing: {', '.join(missing)}. Set client.tag.<name> for each."
            )
            self._statuses.append(status(StatusCode.MISSING_CLIENT_TAGS, detail))


def _matters_to_targets(before: StreamsGroupMember, member: StreamsGroupMember) -> bool:
    """Whether a static member's changes affect targets. A new member id or host does not."""
    return (before.topology_epoch, before.rack_id, before.client_tags, before.process_id) != (
        member.topology_epoch,
        member.rack_id,
        member.client_tags,
        member.process_id,
    )


def _by_task(listed: list[TaskOffset]) -> dict[str, dict[int, int]]:
    offsets: dict[str, dict[int, int]] = {}
    for one in listed:
        of_subtopology = offsets.setdefault(one.subtopology_id, {})
        if one.partition in of_subtopology:
            raise _invalid(f"Offsets of task {one.subtopology_id}_{one.partition} occur twice.")
        of_subtopology[one.partition] = one.offset
    return offsets


def _invalid(message: str) -> KafkaError:
    return KafkaError(Code.INVALID_REQUEST, message)
