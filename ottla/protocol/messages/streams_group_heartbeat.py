"""StreamsGroupHeartbeat: generated from protocol/schemas/streams_group_heartbeat.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_B_ = _Struct(">?")
_fmt_H = _Struct(">H")
_fmt_b = _Struct(">b")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_ii = _Struct(">ii")
_fmt_iq = _Struct(">iq")
_fmt_q = _Struct(">q")

API_KEY = 88

class KeyValue(msgspec.Struct, gc=False):
    key: str = ""
    value: str = ""


def _read_key_value(buf: Buffer, pos: int, version: int) -> tuple[KeyValue, int]:
    key, pos = read_compact_string(buf, pos)
    value, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return KeyValue(key, value), pos


def _write_key_value(put: Put, m: KeyValue, version: int) -> None:
    put(compact_string(m.key))
    put(compact_string(m.value))
    put(b"\0")


class TopicInfo(msgspec.Struct, gc=False):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[KeyValue] = []


def _read_topic_info(buf: Buffer, pos: int, version: int) -> tuple[TopicInfo, int]:
    name, pos = read_compact_string(buf, pos)
    partitions, replication_factor = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    _count, pos = read_compact_length(buf, pos)
    topic_configs: list[KeyValue] = []
    for _ in range(_count):
        _topic_configs_item, pos = _read_key_value(buf, pos, version)
        topic_configs.append(_topic_configs_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicInfo(name, partitions, replication_factor, topic_configs), pos


def _write_topic_info(put: Put, m: TopicInfo, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_ih.pack(m.partitions, m.replication_factor))
    put(uvarint(len(m.topic_configs) + 1))
    for item_topic_configs in m.topic_configs:
        _write_key_value(put, item_topic_configs, version)
    put(b"\0")


class Endpoint(msgspec.Struct, gc=False):
    host: str = ""
    port: int = 0


def _read_endpoint(buf: Buffer, pos: int, version: int) -> tuple[Endpoint, int]:
    host, pos = read_compact_string(buf, pos)
    (port,) = _fmt_H.unpack_from(buf, pos)
    pos += 2
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Endpoint(host, port), pos


def _write_endpoint(put: Put, m: Endpoint, version: int) -> None:
    put(compact_string(m.host))
    put(_fmt_H.pack(m.port))
    put(b"\0")


class TaskOffset(msgspec.Struct, gc=False):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


def _read_task_offset(buf: Buffer, pos: int, version: int) -> tuple[TaskOffset, int]:
    subtopology_id, pos = read_compact_string(buf, pos)
    partition, offset = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TaskOffset(subtopology_id, partition, offset), pos


def _write_task_offset(put: Put, m: TaskOffset, version: int) -> None:
    put(compact_string(m.subtopology_id))
    put(_fmt_iq.pack(m.partition, m.offset))
    put(b"\0")


class TaskIds(msgspec.Struct, gc=False):
    subtopology_id: str = ""
    partitions: list[int] = []


def _read_task_ids(buf: Buffer, pos: int, version: int) -> tuple[TaskIds, int]:
    subtopology_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TaskIds(subtopology_id, partitions), pos


def _write_task_ids(put: Put, m: TaskIds, version: int) -> None:
    put(compact_string(m.subtopology_id))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class CopartitionGroup(msgspec.Struct, gc=False):
    source_topics: list[int] = []
    source_topic_regex: list[int] = []
    repartition_source_topics: list[int] = []


def _read_copartition_group(buf: Buffer, pos: int, version: int) -> tuple[CopartitionGroup, int]:
    _count, pos = read_compact_length(buf, pos)
    source_topics: list[int] = list(unpack_from(f">{_count}h", buf, pos))
    pos += 2 * _count
    _count, pos = read_compact_length(buf, pos)
    source_topic_regex: list[int] = list(unpack_from(f">{_count}h", buf, pos))
    pos += 2 * _count
    _count, pos = read_compact_length(buf, pos)
    repartition_source_topics: list[int] = list(unpack_from(f">{_count}h", buf, pos))
    pos += 2 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return CopartitionGroup(source_topics, source_topic_regex, repartition_source_topics), pos


def _write_copartition_group(put: Put, m: CopartitionGroup, version: int) -> None:
    put(uvarint(len(m.source_topics) + 1))
    put(pack(f">{len(m.source_topics)}h", *m.source_topics))
    put(uvarint(len(m.source_topic_regex) + 1))
    put(pack(f">{len(m.source_topic_regex)}h", *m.source_topic_regex))
    put(uvarint(len(m.repartition_source_topics) + 1))
    put(pack(f">{len(m.repartition_source_topics)}h", *m.repartition_source_topics))
    put(b"\0")


class Subtopology(msgspec.Struct, gc=False):
    subtopology_id: str = ""
    source_topics: list[str] = []
    source_topic_regex: list[str] = []
    state_changelog_topics: list[TopicInfo] = []
    repartition_sink_topics: list[str] = []
    repartition_source_topics: list[TopicInfo] = []
    copartition_groups: list[CopartitionGroup] = []


def _read_subtopology(buf: Buffer, pos: int, version: int) -> tuple[Subtopology, int]:
    subtopology_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    source_topics: list[str] = []
    for _ in range(_count):
        _source_topics_item, pos = read_compact_string(buf, pos)
        source_topics.append(_source_topics_item)
    _count, pos = read_compact_length(buf, pos)
    source_topic_regex: list[str] = []
    for _ in range(_count):
        _source_topic_regex_item, pos = read_compact_string(buf, pos)
        source_topic_regex.append(_source_topic_regex_item)
    _count, pos = read_compact_length(buf, pos)
    state_changelog_topics: list[TopicInfo] = []
    for _ in range(_count):
        _state_changelog_topics_item, pos = _read_topic_info(buf, pos, version)
        state_changelog_topics.append(_state_changelog_topics_item)
    _count, pos = read_compact_length(buf, pos)
    repartition_sink_topics: list[str] = []
    for _ in range(_count):
        _repartition_sink_topics_item, pos = read_compact_string(buf, pos)
        repartition_sink_topics.append(_repartition_sink_topics_item)
    _count, pos = read_compact_length(buf, pos)
    repartition_source_topics: list[TopicInfo] = []
    for _ in range(_count):
        _repartition_source_topics_item, pos = _read_topic_info(buf, pos, version)
        repartition_source_topics.append(_repartition_source_topics_item)
    _count, pos = read_compact_length(buf, pos)
    copartition_groups: list[CopartitionGroup] = []
    for _ in range(_count):
        _copartition_groups_item, pos = _read_copartition_group(buf, pos, version)
        copartition_groups.append(_copartition_groups_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Subtopology(subtopology_id, source_topics, source_topic_regex, state_changelog_topics, repartition_sink_topics, repartition_source_topics, copartition_groups), pos


def _write_subtopology(put: Put, m: Subtopology, version: int) -> None:
    put(compact_string(m.subtopology_id))
    put(uvarint(len(m.source_topics) + 1))
    for item_source_topics in m.source_topics:
        put(compact_string(item_source_topics))
    put(uvarint(len(m.source_topic_regex) + 1))
    for item_source_topic_regex in m.source_topic_regex:
        put(compact_string(item_source_topic_regex))
    put(uvarint(len(m.state_changelog_topics) + 1))
    for item_state_changelog_topics in m.state_changelog_topics:
        _write_topic_info(put, item_state_changelog_topics, version)
    put(uvarint(len(m.repartition_sink_topics) + 1))
    for item_repartition_sink_topics in m.repartition_sink_topics:
        put(compact_string(item_repartition_sink_topics))
    put(uvarint(len(m.repartition_source_topics) + 1))
    for item_repartition_source_topics in m.repartition_source_topics:
        _write_topic_info(put, item_repartition_source_topics, version)
    put(uvarint(len(m.copartition_groups) + 1))
    for item_copartition_groups in m.copartition_groups:
        _write_copartition_group(put, item_copartition_groups, version)
    put(b"\0")


class Topology(msgspec.Struct, gc=False):
    epoch: int = 0
    subtopologies: list[Subtopology] = []


def _read_topology(buf: Buffer, pos: int, version: int) -> tuple[Topology, int]:
    (epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    subtopologies: list[Subtopology] = []
    for _ in range(_count):
        _subtopologies_item, pos = _read_subtopology(buf, pos, version)
        subtopologies.append(_subtopologies_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Topology(epoch, subtopologies), pos


def _write_topology(put: Put, m: Topology, version: int) -> None:
    put(_fmt_i.pack(m.epoch))
    put(uvarint(len(m.subtopologies) + 1))
    for item_subtopologies in m.subtopologies:
        _write_subtopology(put, item_subtopologies, version)
    put(b"\0")


class StreamsGroupHeartbeatRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


def _read_streams_group_heartbeat_request(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupHeartbeatRequest, int]:
    group_id, pos = read_compact_string(buf, pos)
    member_id, pos = read_compact_string(buf, pos)
    member_epoch, endpoint_information_epoch = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    instance_id, pos = read_compact_nullable_string(buf, pos)
    rack_id, pos = read_compact_nullable_string(buf, pos)
    (rebalance_timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    topology: Topology | None = None
    _present = buf[pos]
    pos += 1
    if _present == 1:
        topology, pos = _read_topology(buf, pos, version)
    _count, pos = read_compact_nullable_length(buf, pos)
    active_tasks: list[TaskIds] | None = None
    if _count >= 0:
        active_tasks = []
        for _ in range(_count):
            _active_tasks_item, pos = _read_task_ids(buf, pos, version)
            active_tasks.append(_active_tasks_item)
    _count, pos = read_compact_nullable_length(buf, pos)
    standby_tasks: list[TaskIds] | None = None
    if _count >= 0:
        standby_tasks = []
        for _ in range(_count):
            _standby_tasks_item, pos = _read_task_ids(buf, pos, version)
            standby_tasks.append(_standby_tasks_item)
    _count, pos = read_compact_nullable_length(buf, pos)
    warmup_tasks: list[TaskIds] | None = None
    if _count >= 0:
        warmup_tasks = []
        for _ in range(_count):
            _warmup_tasks_item, pos = _read_task_ids(buf, pos, version)
            warmup_tasks.append(_warmup_tasks_item)
    process_id, pos = read_compact_nullable_string(buf, pos)
    user_endpoint: Endpoint | None = None
    _present = buf[pos]
    pos += 1
    if _present == 1:
        user_endpoint, pos = _read_endpoint(buf, pos, version)
    _count, pos = read_compact_nullable_length(buf, pos)
    client_tags: list[KeyValue] | None = None
    if _count >= 0:
        client_tags = []
        for _ in range(_count):
            _client_tags_item, pos = _read_key_value(buf, pos, version)
            client_tags.append(_client_tags_item)
    _count, pos = read_compact_nullable_length(buf, pos)
    task_offsets: list[TaskOffset] | None = None
    if _count >= 0:
        task_offsets = []
        for _ in range(_count):
            _task_offsets_item, pos = _read_task_offset(buf, pos, version)
            task_offsets.append(_task_offsets_item)
    _count, pos = read_compact_nullable_length(buf, pos)
    task_end_offsets: list[TaskOffset] | None = None
    if _count >= 0:
        task_end_offsets = []
        for _ in range(_count):
            _task_end_offsets_item, pos = _read_task_offset(buf, pos, version)
            task_end_offsets.append(_task_end_offsets_item)
    (shutdown_application,) = _fmt_B_.unpack_from(buf, pos)
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StreamsGroupHeartbeatRequest(group_id, member_id, member_epoch, endpoint_information_epoch, instance_id, rack_id, rebalance_timeout_ms, topology, active_tasks, standby_tasks, warmup_tasks, process_id, user_endpoint, client_tags, task_offsets, task_end_offsets, shutdown_application), pos


def _write_streams_group_heartbeat_request(put: Put, m: StreamsGroupHeartbeatRequest, version: int) -> None:
    put(compact_string(m.group_id))
    put(compact_string(m.member_id))
    put(_fmt_ii.pack(m.member_epoch, m.endpoint_information_epoch))
    put(compact_string(m.instance_id))
    put(compact_string(m.rack_id))
    put(_fmt_i.pack(m.rebalance_timeout_ms))
    if m.topology is None:
        put(b"\xff")
    else:
        put(b"\x01")
        _write_topology(put, m.topology, version)
    if m.active_tasks is None:
        put(b"\0")
    else:
        put(uvarint(len(m.active_tasks) + 1))
        for item_active_tasks in m.active_tasks:
            _write_task_ids(put, item_active_tasks, version)
    if m.standby_tasks is None:
        put(b"\0")
    else:
        put(uvarint(len(m.standby_tasks) + 1))
        for item_standby_tasks in m.standby_tasks:
            _write_task_ids(put, item_standby_tasks, version)
    if m.warmup_tasks is None:
        put(b"\0")
    else:
        put(uvarint(len(m.warmup_tasks) + 1))
        for item_warmup_tasks in m.warmup_tasks:
            _write_task_ids(put, item_warmup_tasks, version)
    put(compact_string(m.process_id))
    if m.user_endpoint is None:
        put(b"\xff")
    else:
        put(b"\x01")
        _write_endpoint(put, m.user_endpoint, version)
    if m.client_tags is None:
        put(b"\0")
    else:
        put(uvarint(len(m.client_tags) + 1))
        for item_client_tags in m.client_tags:
            _write_key_value(put, item_client_tags, version)
    if m.task_offsets is None:
        put(b"\0")
    else:
        put(uvarint(len(m.task_offsets) + 1))
        for item_task_offsets in m.task_offsets:
            _write_task_offset(put, item_task_offsets, version)
    if m.task_end_offsets is None:
        put(b"\0")
    else:
        put(uvarint(len(m.task_end_offsets) + 1))
        for item_task_end_offsets in m.task_end_offsets:
            _write_task_offset(put, item_task_end_offsets, version)
    put(_fmt_B_.pack(m.shutdown_application))
    put(b"\0")


class Status(msgspec.Struct, gc=False):
    status_code: int = 0
    status_detail: str = ""


def _read_status(buf: Buffer, pos: int, version: int) -> tuple[Status, int]:
    (status_code,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    status_detail, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Status(status_code, status_detail), pos


def _write_status(put: Put, m: Status, version: int) -> None:
    put(_fmt_b.pack(m.status_code))
    put(compact_string(m.status_detail))
    put(b"\0")


class TopicPartition(msgspec.Struct, gc=False):
    topic: str = ""
    partitions: list[int] = []


def _read_topic_partition(buf: Buffer, pos: int, version: int) -> tuple[TopicPartition, int]:
    topic, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicPartition(topic, partitions), pos


def _write_topic_partition(put: Put, m: TopicPartition, version: int) -> None:
    put(compact_string(m.topic))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class EndpointToPartitions(msgspec.Struct, gc=False):
    user_endpoint: Endpoint = msgspec.field(default_factory=Endpoint)
    active_partitions: list[TopicPartition] = []
    standby_partitions: list[TopicPartition] = []


def _read_endpoint_to_partitions(buf: Buffer, pos: int, version: int) -> tuple[EndpointToPartitions, int]:
    user_endpoint, pos = _read_endpoint(buf, pos, version)
    _count, pos = read_compact_length(buf, pos)
    active_partitions: list[TopicPartition] = []
    for _ in range(_count):
        _active_partitions_item, pos = _read_topic_partition(buf, pos, version)
        active_partitions.append(_active_partitions_item)
    _count, pos = read_compact_length(buf, pos)
    standby_partitions: list[TopicPartition] = []
    for _ in range(_count):
        _standby_partitions_item, pos = _read_topic_partition(buf, pos, version)
        standby_partitions.append(_standby_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return EndpointToPartitions(user_endpoint, active_partitions, standby_partitions), pos


def _write_endpoint_to_partitions(put: Put, m: EndpointToPartitions, version: int) -> None:
    _write_endpoint(put, m.user_endpoint, version)
    put(uvarint(len(m.active_partitions) + 1))
    for item_active_partitions in m.active_partitions:
        _write_topic_partition(put, item_active_partitions, version)
    put(uvarint(len(m.standby_partitions) + 1))
    for item_standby_partitions in m.standby_partitions:
        _write_topic_partition(put, item_standby_partitions, version)
    put(b"\0")


class StreamsGroupHeartbeatResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    acceptable_recovery_lag_legacy: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    status: list[Status] | None = []
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    topology_description_required: bool = False
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None


def _read_streams_group_heartbeat_response(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupHeartbeatResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    member_id, pos = read_compact_string(buf, pos)
    member_epoch, heartbeat_interval_ms = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    acceptable_recovery_lag_legacy: int = 0
    if version <= 0:
        (acceptable_recovery_lag_legacy,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    (task_offset_interval_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    acceptable_recovery_lag: int = -1
    if version >= 1:
        (acceptable_recovery_lag,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    _count, pos = read_compact_nullable_length(buf, pos)
    status: list[Status] | None = None
    if _count >= 0:
        status = []
        for _ in range(_count):
            _status_item, pos = _read_status(buf, pos, version)
            status.append(_status_item)
    _count, pos = read_compact_nullable_length(buf, pos)
    active_tasks: list[TaskIds] | None = None
    if _count >= 0:
        active_tasks = []
        for _ in range(_count):
            _active_tasks_item, pos = _read_task_ids(buf, pos, version)
            active_tasks.append(_active_tasks_item)
    _count, pos = read_compact_nullable_length(buf, pos)
    standby_tasks: list[TaskIds] | None = None
    if _count >= 0:
        standby_tasks = []
        for _ in range(_count):
            _standby_tasks_item, pos = _read_task_ids(buf, pos, version)
            standby_tasks.append(_standby_tasks_item)
    _count, pos = read_compact_nullable_length(buf, pos)
    warmup_tasks: list[TaskIds] | None = None
    if _count >= 0:
        warmup_tasks = []
        for _ in range(_count):
            _warmup_tasks_item, pos = _read_task_ids(buf, pos, version)
            warmup_tasks.append(_warmup_tasks_item)
    topology_description_required: bool = False
    if version >= 1:
        (topology_description_required,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    (endpoint_information_epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_nullable_length(buf, pos)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
    if _count >= 0:
        partitions_by_user_endpoint = []
        for _ in range(_count):
            _partitions_by_user_endpoint_item, pos = _read_endpoint_to_partitions(buf, pos, version)
            partitions_by_user_endpoint.append(_partitions_by_user_endpoint_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StreamsGroupHeartbeatResponse(throttle_time_ms, error_code, error_message, member_id, member_epoch, heartbeat_interval_ms, acceptable_recovery_lag_legacy, task_offset_interval_ms, acceptable_recovery_lag, status, active_tasks, standby_tasks, warmup_tasks, topology_description_required, endpoint_information_epoch, partitions_by_user_endpoint), pos


def _write_streams_group_heartbeat_response(put: Put, m: StreamsGroupHeartbeatResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(compact_string(m.member_id))
    put(_fmt_ii.pack(m.member_epoch, m.heartbeat_interval_ms))
    if version <= 0:
        put(_fmt_i.pack(m.acceptable_recovery_lag_legacy))
    put(_fmt_i.pack(m.task_offset_interval_ms))
    if version >= 1:
        put(_fmt_q.pack(m.acceptable_recovery_lag))
    if m.status is None:
        put(b"\0")
    else:
        put(uvarint(len(m.status) + 1))
        for item_status in m.status:
            _write_status(put, item_status, version)
    if m.active_tasks is None:
        put(b"\0")
    else:
        put(uvarint(len(m.active_tasks) + 1))
        for item_active_tasks in m.active_tasks:
            _write_task_ids(put, item_active_tasks, version)
    if m.standby_tasks is None:
        put(b"\0")
    else:
        put(uvarint(len(m.standby_tasks) + 1))
        for item_standby_tasks in m.standby_tasks:
            _write_task_ids(put, item_standby_tasks, version)
    if m.warmup_tasks is None:
        put(b"\0")
    else:
        put(uvarint(len(m.warmup_tasks) + 1))
        for item_warmup_tasks in m.warmup_tasks:
            _write_task_ids(put, item_warmup_tasks, version)
    if version >= 1:
        put(_fmt_B_.pack(m.topology_description_required))
    put(_fmt_i.pack(m.endpoint_information_epoch))
    if m.partitions_by_user_endpoint is None:
        put(b"\0")
    else:
        put(uvarint(len(m.partitions_by_user_endpoint) + 1))
        for item_partitions_by_user_endpoint in m.partitions_by_user_endpoint:
            _write_endpoint_to_partitions(put, item_partitions_by_user_endpoint, version)
    put(b"\0")


decode_request = _read_streams_group_heartbeat_request
encode_request = _write_streams_group_heartbeat_request
decode_response = _read_streams_group_heartbeat_response
encode_response = _write_streams_group_heartbeat_response
