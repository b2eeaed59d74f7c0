"""Requests, responses and configuration of streams groups. Requests and responses are Kafka's own messages."""

from __future__ import annotations

import msgspec

from ottla.coordinator.group.epochs import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from ottla.coordinator.group.modern.requests import Heartbeat
from ottla.coordinator.group.streams.configuration import MAX_TASKS, InternalTopic
from ottla.coordinator.group.streams.records import task_set
from ottla.coordinator.group.streams.tasks import Tasks
from ottla.coordinator.group.streams.topology import check_topic_names, check_topology
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    Topology,
)

STANDBYS_CONFIG = "num.standby.replicas"
RACK_TAGS_CONFIG = "rack.aware.assignment.tags"
ASSIGNOR_NAME = "sticky"
MAX_SUBTOPOLOGIES = 500
"""Maximum number of subtopologies. Each blocks the event loop for about 20 us. Applications have a handful."""
MAX_TOPOLOGY_ELEMENTS = 5_000
"""Maximum number of topic names, topic configs, copartition groups and their members in all subtopologies together."""
MAX_CLIENT_TAGS = 1_000
"""Maximum number of client tags of a member. Kafka Streams allows five."""


class StreamsGroupConfig(msgspec.Struct, frozen=True):
    """The broker's ``group.streams.*`` configs."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    initial_rebalance_delay_ms: int = 0
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    standby_replica_count: int = 0
    rack_aware_assignment_tags: tuple[str, ...] = ()
    max_size: int = 0x7FFFFFFF

    def assignment_configs(self) -> dict[str, str]:
        """Return the configs that targets depend on, as the group's record stores them. A change makes the broker compute a new
        target."""
        configs = {STANDBYS_CONFIG: str(self.standby_replica_count)}
        if self.rack_aware_assignment_tags:
            configs[RACK_TAGS_CONFIG] = ",".join(self.rack_aware_assignment_tags)
        return configs


StreamsHeartbeat = Heartbeat[StreamsGroupHeartbeatRequest]


class StreamsHeartbeatOutcome(msgspec.Struct):
    """The response to a heartbeat, and the topics that the broker must create (StreamsGroupHeartbeatResult of Kafka)."""

    answer: StreamsGroupHeartbeatResponse
    missing_topics: dict[str, InternalTopic] = {}


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that the member lists as its own, or None if it lists none."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(task_set(request.active_tasks), task_set(request.standby_tasks), task_set(request.warmup_tasks))


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY for a request that no group would accept. The checks are in Kafka's order.

    Whether the topology is the group's, and fits the existing topics, is checked later (`heartbeat`).
    """
    epoch, topology = request.member_epoch, request.topology
    _check_sizes(request)
    if topology is not None:
        check_topic_names(topology)
    if topology is not None and any(one.source_topic_regex for one in topology.subtopologies):
        raise _invalid("Regular expressions for source topics are not supported yet.")
    for text, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
    owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if epoch == JOIN_EPOCH:
        _check_joining(request, owned)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if any(tasks is not None for tasks in owned) and any(tasks is None for tasks in owned):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if epoch != JOIN_EPOCH and topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_sizes(request: StreamsGroupHeartbeatRequest) -> None:
    if request.topology is not None:
        _check_topology_size(request.topology)
    tags = len(request.client_tags or ())
    if tags > MAX_CLIENT_TAGS:
        raise _invalid(f"The member has {tags} client tags, and may have {MAX_CLIENT_TAGS} at most.")
    owned = [tasks for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks) if tasks]
    count = sum(map(len, owned))
    if count <= MAX_TASKS:
        count = max(count, sum(len(one.partitions) for tasks in owned for one in tasks))
    offsets = max(len(request.task_offsets or ()), len(request.task_end_offsets or ()))
    for number, of in ((count, "tasks that the member owns"), (offsets, "offsets of tasks")):
        if number > MAX_TASKS:
            raise _invalid(f"There are {number} {of}, and a topology has {MAX_TASKS} tasks at most.")


def _check_topology_size(topology: Topology) -> None:
    def refuse(message: str) -> KafkaError:
        return KafkaError(Code.STREAMS_INVALID_TOPOLOGY, message)

    subtopologies = len(topology.subtopologies)
    if subtopologies > MAX_SUBTOPOLOGIES:
        raise refuse(f"The topology has {subtopologies} subtopologies, and may have {MAX_SUBTOPOLOGIES} at most.")
    count = 0
    for one in topology.subtopologies:
        infos = [*one.state_changelog_topics, *one.repartition_source_topics]
        count += len(one.source_topics) + len(one.repartition_sink_topics) + len(infos) + len(one.copartition_groups)
        count += sum(len(info.topic_configs) for info in infos)
        count += sum(len(group.source_topics) + len(group.repartition_source_topics) for group in one.copartition_groups)
    if count > MAX_TOPOLOGY_ELEMENTS:
        message = (
            f"The topology names {count} topics, configs and copartition groups, and may name {MAX_TOPOLOGY_ELEMENTS} at most."
        )
        raise refuse(message)


def _check_joining(request: StreamsGroupHeartbeatRequest, owned: tuple[list[TaskIds] | None, ...]) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in zip(owned, ("ActiveTasks", "StandbyTasks", "WarmupTasks"), strict=True):
        if tasks is None or tasks:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    check_topology(request.topology)


def _invalid(message: str) -> KafkaError:
    return KafkaError(Code.INVALID_REQUEST, message)
