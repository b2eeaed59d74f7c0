"""Records of streams groups in ``__consumer_offsets`` (StreamsCoordinatorRecordHelpers of Kafka), in Kafka's own schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ottla.coordinator.group.modern.records import group_key, member_key, modern_records
from ottla.coordinator.group.streams.member import StreamsGroupMember, state_of
from ottla.coordinator.group.streams.tasks import AssignedTasks, TaskEpochs, Tasks, task_ids
from ottla.coordinator.group.streams.topology import Topology, topology_of
from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import decode_record, encode_record
from ottla.protocol.messages import streams_group_current_member_assignment_key as current_key
from ottla.protocol.messages import streams_group_current_member_assignment_value as current_value
from ottla.protocol.messages import streams_group_member_metadata_key as member_metadata_key
from ottla.protocol.messages import streams_group_member_metadata_value as member_value
from ottla.protocol.messages import streams_group_metadata_key as metadata_key
from ottla.protocol.messages import streams_group_metadata_value as metadata_value
from ottla.protocol.messages import streams_group_target_assignment_member_key as target_key
from ottla.protocol.messages import streams_group_target_assignment_member_value as target_value
from ottla.protocol.messages import streams_group_target_assignment_metadata_key as target_metadata_key
from ottla.protocol.messages import streams_group_topology_key as topology_key
from ottla.protocol.messages import streams_group_topology_value as topology_value

TOPOLOGY = topology_key.RECORD_TYPE
RECORDS = modern_records(metadata_key, member_metadata_key, target_metadata_key, target_key, current_key, {TOPOLOGY: topology_key})

NO_EPOCH = -1
"""The epoch if no topology was validated, or if no description of a topology was stored or rejected."""


class GroupMetadata(msgspec.Struct, frozen=True):
    """The content of a group's metadata record.

    ``validated_topology_epoch`` is the epoch of the topology if all its topics exist. ``described_epoch`` and ``undescribed_epoch``
    are the epochs of the last topology whose description was stored, or could not be stored (KIP-1331).
    """

    epoch: int
    metadata_hash: int = 0
    validated_topology_epoch: int = NO_EPOCH
    assignment_configs: dict[str, str] = {}
    described_epoch: int = NO_EPOCH
    undescribed_epoch: int = NO_EPOCH


# encoding and decoding records of a group


def metadata_record(group_id: str, metadata: GroupMetadata) -> LogRecord:
    configs = [metadata_value.LastAssignmentConfig(key=k, value=v) for k, v in sorted(metadata.assignment_configs.items())]
    value = metadata_value.StreamsGroupMetadataValue(
        epoch=metadata.epoch,
        metadata_hash=metadata.metadata_hash,
        validated_topology_epoch=metadata.validated_topology_epoch,
        last_assignment_configs=configs,
        stored_description_topology_epoch=metadata.described_epoch,
        failed_description_topology_epoch=metadata.undescribed_epoch,
    )
    return LogRecord(group_key(RECORDS.metadata, group_id), encode_record(metadata_value, value, 0))


def read_metadata(raw: bytes) -> GroupMetadata:
    value = decode_record(metadata_value, raw)
    return GroupMetadata(
        epoch=value.epoch,
        metadata_hash=value.metadata_hash,
        validated_topology_epoch=value.validated_topology_epoch,
        assignment_configs={config.key: config.value for config in value.last_assignment_configs or ()},
        described_epoch=value.stored_description_topology_epoch,
        undescribed_epoch=value.failed_description_topology_epoch,
    )


def topology_record(group_id: str, topology: Topology) -> LogRecord:
    return LogRecord(group_key(TOPOLOGY, group_id), encode_record(topology_value, topology.as_value(), 0))


def read_topology(raw: bytes) -> Topology:
    return topology_of(decode_record(topology_value, raw))


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[LogRecord]:
    """Return tombstones for all records of a group, in Kafka's order."""
    return RECORDS.group_tombstones(group_id, member_ids, group_key(RECORDS.metadata, group_id), group_key(TOPOLOGY, group_id))


# encoding and decoding records of a member


def member_record(group_id: str, member: StreamsGroupMember) -> LogRecord:
    endpoint = member.user_endpoint
    value = member_value.StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else member_value.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[member_value.KeyValue(key=key, value=tag) for key, tag in sorted(member.client_tags.items())],
    )
    return LogRecord(member_key(RECORDS.member, group_id, member.member_id), encode_record(member_value, value, 0))


def read_member(raw: bytes) -> dict[str, Any]:
    """Decode the fields of `StreamsGroupMember` in a member's metadata record."""
    value = decode_record(member_value, raw)
    endpoint = value.user_endpoint
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "topology_epoch": value.topology_epoch,
        "process_id": value.process_id,
        "user_endpoint": None if endpoint is None else (endpoint.host, endpoint.port),
        "client_tags": {tag.key: tag.value for tag in value.client_tags},
    }


def target_record(group_id: str, member_id: str, target: Tasks) -> LogRecord:
    value = target_value.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=task_ids(target_value.TaskIds, target.active),
        standby_tasks=task_ids(target_value.TaskIds, target.standby),
        warmup_tasks=task_ids(target_value.TaskIds, target.warmup),
    )
    return LogRecord(member_key(RECORDS.target_member, group_id, member_id), encode_record(target_value, value, 0))


def read_target(raw: bytes) -> Tasks:
    value = decode_record(target_value, raw)
    return Tasks(task_set(value.active_tasks), task_set(value.standby_tasks), task_set(value.warmup_tasks))


def current_record(group_id: str, member: StreamsGroupMember) -> LogRecord:
    assigned, revoking = member.assigned, member.revoking
    value = current_value.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=task_ids(current_value.TaskIds, assigned.standby),
        warmup_tasks=task_ids(current_value.TaskIds, assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(revoking.active),
        standby_tasks_pending_revocation=task_ids(current_value.TaskIds, revoking.standby),
        warmup_tasks_pending_revocation=task_ids(current_value.TaskIds, revoking.warmup),
    )
    return LogRecord(member_key(RECORDS.current, group_id, member.member_id), encode_record(current_value, value, 0))


def read_current(raw: bytes) -> dict[str, Any]:
    """Decode the fields of `StreamsGroupMember` in the record of a member's current assignment."""
    v = decode_record(current_value, raw)
    epoch = v.member_epoch
    return {
        "member_epoch": epoch,
        "previous_epoch": v.previous_member_epoch,
        "state": state_of(v.state),
        "assigned": AssignedTasks(_read_epochs(v.active_tasks, epoch), task_set(v.standby_tasks), task_set(v.warmup_tasks)),
        "revoking": AssignedTasks(
            _read_epochs(v.active_tasks_pending_revocation, epoch),
            task_set(v.standby_tasks_pending_revocation),
            task_set(v.warmup_tasks_pending_revocation),
        ),
    }


# encoding and decoding tasks


def _with_epochs(tasks: TaskEpochs) -> list[current_value.TaskIds]:
    listed = []
    for subtopology in sorted(tasks):
        partitions = sorted(tasks[subtopology])
        epochs = [tasks[subtopology][partition] for partition in partitions]
        listed.append(current_value.TaskIds(subtopology_id=subtopology, partitions=partitions, assignment_epochs=epochs))
    return listed


def _read_epochs(listed: Iterable[current_value.TaskIds], member_epoch: int) -> Mapping[str, Mapping[int, int]]:
    """Decode tasks. Brokers before Apache Kafka 4.2 wrote no assignment epochs; each task then gets the member's epoch."""
    tasks: dict[str, dict[int, int]] = {}
    for one in listed:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            epochs = [member_epoch] * len(one.partitions)
        tasks[one.subtopology_id] = dict(zip(one.partitions, epochs, strict=True))
    return tasks


def task_set(listed: Iterable[Any]) -> dict[str, frozenset[int]]:
    return {one.subtopology_id: frozenset(one.partitions) for one in listed}
