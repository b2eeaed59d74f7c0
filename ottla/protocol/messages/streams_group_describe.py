"""StreamsGroupDescribe: generated from protocol/schemas/streams_group_describe.schema by protocol.codegen; do not edit."""

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
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_ii = _Struct(">ii")
_fmt_iq = _Struct(">iq")

API_KEY = 89

class StreamsGroupDescribeRequest(msgspec.Struct, gc=False):
    group_ids: list[str] = []
    include_authorized_operations: bool = False
    include_topology_description: bool = False


def _read_streams_group_describe_request(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupDescribeRequest, int]:
    _count, pos = read_compact_length(buf, pos)
    group_ids: list[str] = []
    for _ in range(_count):
        _group_ids_item, pos = read_compact_string(buf, pos)
        group_ids.append(_group_ids_item)
    (include_authorized_operations,) = _fmt_B_.unpack_from(buf, pos)
    pos += 1
    include_topology_description: bool = False
    if version >= 1:
        (include_topology_description,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StreamsGroupDescribeRequest(group_ids, include_authorized_operations, include_topology_description), pos


def _write_streams_group_describe_request(put: Put, m: StreamsGroupDescribeRequest, version: int) -> None:
    put(uvarint(len(m.group_ids) + 1))
    for item_group_ids in m.group_ids:
        put(compact_string(item_group_ids))
    put(_fmt_B_.pack(m.include_authorized_operations))
    if version >= 1:
        put(_fmt_B_.pack(m.include_topology_description))
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


class Assignment(msgspec.Struct, gc=False):
    active_tasks: list[TaskIds] = []
    standby_tasks: list[TaskIds] = []
    warmup_tasks: list[TaskIds] = []


def _read_assignment(buf: Buffer, pos: int, version: int) -> tuple[Assignment, int]:
    _count, pos = read_compact_length(buf, pos)
    active_tasks: list[TaskIds] = []
    for _ in range(_count):
        _active_tasks_item, pos = _read_task_ids(buf, pos, version)
        active_tasks.append(_active_tasks_item)
    _count, pos = read_compact_length(buf, pos)
    standby_tasks: list[TaskIds] = []
    for _ in range(_count):
        _standby_tasks_item, pos = _read_task_ids(buf, pos, version)
        standby_tasks.append(_standby_tasks_item)
    _count, pos = read_compact_length(buf, pos)
    warmup_tasks: list[TaskIds] = []
    for _ in range(_count):
        _warmup_tasks_item, pos = _read_task_ids(buf, pos, version)
        warmup_tasks.append(_warmup_tasks_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Assignment(active_tasks, standby_tasks, warmup_tasks), pos


def _write_assignment(put: Put, m: Assignment, version: int) -> None:
    put(uvarint(len(m.active_tasks) + 1))
    for item_active_tasks in m.active_tasks:
        _write_task_ids(put, item_active_tasks, version)
    put(uvarint(len(m.standby_tasks) + 1))
    for item_standby_tasks in m.standby_tasks:
        _write_task_ids(put, item_standby_tasks, version)
    put(uvarint(len(m.warmup_tasks) + 1))
    for item_warmup_tasks in m.warmup_tasks:
        _write_task_ids(put, item_warmup_tasks, version)
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


class TopologyDescription(msgspec.Struct, gc=False):
    subtopologies: list[TopologyDescriptionSubtopology] = []
    global_stores: list[TopologyDescriptionGlobalStore] = []


def _read_topology_description(buf: Buffer, pos: int, version: int) -> tuple[TopologyDescription, int]:
    subtopologies: list[TopologyDescriptionSubtopology] = []
    if version >= 1:
        _count, pos = read_compact_length(buf, pos)
        subtopologies = []
        for _ in range(_count):
            _subtopologies_item, pos = _read_topology_description_subtopology(buf, pos, version)
            subtopologies.append(_subtopologies_item)
    global_stores: list[TopologyDescriptionGlobalStore] = []
    if version >= 1:
        _count, pos = read_compact_length(buf, pos)
        global_stores = []
        for _ in range(_count):
            _global_stores_item, pos = _read_topology_description_global_store(buf, pos, version)
            global_stores.append(_global_stores_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopologyDescription(subtopologies, global_stores), pos


def _write_topology_description(put: Put, m: TopologyDescription, version: int) -> None:
    if version >= 1:
        put(uvarint(len(m.subtopologies) + 1))
        for item_subtopologies in m.subtopologies:
            _write_topology_description_subtopology(put, item_subtopologies, version)
    if version >= 1:
        put(uvarint(len(m.global_stores) + 1))
        for item_global_stores in m.global_stores:
            _write_topology_description_global_store(put, item_global_stores, version)
    put(b"\0")


class TopologyDescriptionSubtopology(msgspec.Struct, gc=False):
    subtopology_id: str = ""
    nodes: list[TopologyDescriptionNode] = []


def _read_topology_description_subtopology(buf: Buffer, pos: int, version: int) -> tuple[TopologyDescriptionSubtopology, int]:
    subtopology_id: str = ""
    if version >= 1:
        subtopology_id, pos = read_compact_string(buf, pos)
    nodes: list[TopologyDescriptionNode] = []
    if version >= 1:
        _count, pos = read_compact_length(buf, pos)
        nodes = []
        for _ in range(_count):
            _nodes_item, pos = _read_topology_description_node(buf, pos, version)
            nodes.append(_nodes_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopologyDescriptionSubtopology(subtopology_id, nodes), pos


def _write_topology_description_subtopology(put: Put, m: TopologyDescriptionSubtopology, version: int) -> None:
    if version >= 1:
        put(compact_string(m.subtopology_id))
    if version >= 1:
        put(uvarint(len(m.nodes) + 1))
        for item_nodes in m.nodes:
            _write_topology_description_node(put, item_nodes, version)
    put(b"\0")


class TopologyDescriptionNode(msgspec.Struct, gc=False):
    name: str = ""
    node_type: int = 0
    source_topics: list[str] = []
    sink_topic: str | None = None
    stores: list[str] = []
    successors: list[str] = []


def _read_topology_description_node(buf: Buffer, pos: int, version: int) -> tuple[TopologyDescriptionNode, int]:
    name: str = ""
    if version >= 1:
        name, pos = read_compact_string(buf, pos)
    node_type: int = 0
    if version >= 1:
        (node_type,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    source_topics: list[str] = []
    if version >= 1:
        _count, pos = read_compact_length(buf, pos)
        source_topics = []
        for _ in range(_count):
            _source_topics_item, pos = read_compact_string(buf, pos)
            source_topics.append(_source_topics_item)
    sink_topic: str | None = None
    if version >= 1:
        sink_topic, pos = read_compact_nullable_string(buf, pos)
    stores: list[str] = []
    if version >= 1:
        _count, pos = read_compact_length(buf, pos)
        stores = []
        for _ in range(_count):
            _stores_item, pos = read_compact_string(buf, pos)
            stores.append(_stores_item)
    successors: list[str] = []
    if version >= 1:
        _count, pos = read_compact_length(buf, pos)
        successors = []
        for _ in range(_count):
            _successors_item, pos = read_compact_string(buf, pos)
            successors.append(_successors_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopologyDescriptionNode(name, node_type, source_topics, sink_topic, stores, successors), pos


def _write_topology_description_node(put: Put, m: TopologyDescriptionNode, version: int) -> None:
    if version >= 1:
        put(compact_string(m.name))
    if version >= 1:
        put(_fmt_b.pack(m.node_type))
    if version >= 1:
        put(uvarint(len(m.source_topics) + 1))
        for item_source_topics in m.source_topics:
            put(compact_string(item_source_topics))
    if version >= 1:
        put(compact_string(m.sink_topic))
    if version >= 1:
        put(uvarint(len(m.stores) + 1))
        for item_stores in m.stores:
            put(compact_string(item_stores))
    if version >= 1:
        put(uvarint(len(m.successors) + 1))
        for item_successors in m.successors:
            put(compact_string(item_successors))
    put(b"\0")


class TopologyDescriptionGlobalStore(msgspec.Struct, gc=False):
    source: TopologyDescriptionNode = msgspec.field(default_factory=TopologyDescriptionNode)
    processor: TopologyDescriptionNode = msgspec.field(default_factory=TopologyDescriptionNode)


def _read_topology_description_global_store(buf: Buffer, pos: int, version: int) -> tuple[TopologyDescriptionGlobalStore, int]:
    source: TopologyDescriptionNode = TopologyDescriptionNode()
    if version >= 1:
        source, pos = _read_topology_description_node(buf, pos, version)
    processor: TopologyDescriptionNode = TopologyDescriptionNode()
    if version >= 1:
        processor, pos = _read_topology_description_node(buf, pos, version)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopologyDescriptionGlobalStore(source, processor), pos


def _write_topology_description_global_store(put: Put, m: TopologyDescriptionGlobalStore, version: int) -> None:
    if version >= 1:
        _write_topology_description_node(put, m.source, version)
    if version >= 1:
        _write_topology_description_node(put, m.processor, version)
    put(b"\0")


class Subtopology(msgspec.Struct, gc=False):
    subtopology_id: str = ""
    source_topics: list[str] = []
    repartition_sink_topics: list[str] = []
    state_changelog_topics: list[TopicInfo] = []
    repartition_source_topics: list[TopicInfo] = []


def _read_subtopology(buf: Buffer, pos: int, version: int) -> tuple[Subtopology, int]:
    subtopology_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    source_topics: list[str] = []
    for _ in range(_count):
        _source_topics_item, pos = read_compact_string(buf, pos)
        source_topics.append(_source_topics_item)
    _count, pos = read_compact_length(buf, pos)
    repartition_sink_topics: list[str] = []
    for _ in range(_count):
        _repartition_sink_topics_item, pos = read_compact_string(buf, pos)
        repartition_sink_topics.append(_repartition_sink_topics_item)
    _count, pos = read_compact_length(buf, pos)
    state_changelog_topics: list[TopicInfo] = []
    for _ in range(_count):
        _state_changelog_topics_item, pos = _read_topic_info(buf, pos, version)
        state_changelog_topics.append(_state_changelog_topics_item)
    _count, pos = read_compact_length(buf, pos)
    repartition_source_topics: list[TopicInfo] = []
    for _ in range(_count):
        _repartition_source_topics_item, pos = _read_topic_info(buf, pos, version)
        repartition_source_topics.append(_repartition_source_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Subtopology(subtopology_id, source_topics, repartition_sink_topics, state_changelog_topics, repartition_source_topics), pos


def _write_subtopology(put: Put, m: Subtopology, version: int) -> None:
    put(compact_string(m.subtopology_id))
    put(uvarint(len(m.source_topics) + 1))
    for item_source_topics in m.source_topics:
        put(compact_string(item_source_topics))
    put(uvarint(len(m.repartition_sink_topics) + 1))
    for item_repartition_sink_topics in m.repartition_sink_topics:
        put(compact_string(item_repartition_sink_topics))
    put(uvarint(len(m.state_changelog_topics) + 1))
    for item_state_changelog_topics in m.state_changelog_topics:
        _write_topic_info(put, item_state_changelog_topics, version)
    put(uvarint(len(m.repartition_source_topics) + 1))
    for item_repartition_source_topics in m.repartition_source_topics:
        _write_topic_info(put, item_repartition_source_topics, version)
    put(b"\0")


class Topology(msgspec.Struct, gc=False):
    epoch: int = 0
    subtopologies: list[Subtopology] | None = None


def _read_topology(buf: Buffer, pos: int, version: int) -> tuple[Topology, int]:
    (epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_nullable_length(buf, pos)
    subtopologies: list[Subtopology] | None = None
    if _count >= 0:
        subtopologies = []
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
    if m.subtopologies is None:
        put(b"\0")
    else:
        put(uvarint(len(m.subtopologies) + 1))
        for item_subtopologies in m.subtopologies:
            _write_subtopology(put, item_subtopologies, version)
    put(b"\0")


class Member(msgspec.Struct, gc=False):
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = []
    task_offsets: list[TaskOffset] = []
    task_end_offsets: list[TaskOffset] = []
    assignment: Assignment = msgspec.field(default_factory=Assignment)
    target_assignment: Assignment = msgspec.field(default_factory=Assignment)
    is_classic: bool = False


def _read_member(buf: Buffer, pos: int, version: int) -> tuple[Member, int]:
    member_id, pos = read_compact_string(buf, pos)
    (member_epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    instance_id, pos = read_compact_nullable_string(buf, pos)
    rack_id, pos = read_compact_nullable_string(buf, pos)
    client_id, pos = read_compact_string(buf, pos)
    client_host, pos = read_compact_string(buf, pos)
    (topology_epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    process_id, pos = read_compact_string(buf, pos)
    user_endpoint: Endpoint | None = None
    _present = buf[pos]
    pos += 1
    if _present == 1:
        user_endpoint, pos = _read_endpoint(buf, pos, version)
    _count, pos = read_compact_length(buf, pos)
    client_tags: list[KeyValue] = []
    for _ in range(_count):
        _client_tags_item, pos = _read_key_value(buf, pos, version)
        client_tags.append(_client_tags_item)
    _count, pos = read_compact_length(buf, pos)
    task_offsets: list[TaskOffset] = []
    for _ in range(_count):
        _task_offsets_item, pos = _read_task_offset(buf, pos, version)
        task_offsets.append(_task_offsets_item)
    _count, pos = read_compact_length(buf, pos)
    task_end_offsets: list[TaskOffset] = []
    for _ in range(_count):
        _task_end_offsets_item, pos = _read_task_offset(buf, pos, version)
        task_end_offsets.append(_task_end_offsets_item)
    assignment, pos = _read_assignment(buf, pos, version)
    target_assignment, pos = _read_assignment(buf, pos, version)
    (is_classic,) = _fmt_B_.unpack_from(buf, pos)
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Member(member_id, member_epoch, instance_id, rack_id, client_id, client_host, topology_epoch, process_id, user_endpoint, client_tags, task_offsets, task_end_offsets, assignment, target_assignment, is_classic), pos


def _write_member(put: Put, m: Member, version: int) -> None:
    put(compact_string(m.member_id))
    put(_fmt_i.pack(m.member_epoch))
    put(compact_string(m.instance_id))
    put(compact_string(m.rack_id))
    put(compact_string(m.client_id))
    put(compact_string(m.client_host))
    put(_fmt_i.pack(m.topology_epoch))
    put(compact_string(m.process_id))
    if m.user_endpoint is None:
        put(b"\xff")
    else:
        put(b"\x01")
        _write_endpoint(put, m.user_endpoint, version)
    put(uvarint(len(m.client_tags) + 1))
    for item_client_tags in m.client_tags:
        _write_key_value(put, item_client_tags, version)
    put(uvarint(len(m.task_offsets) + 1))
    for item_task_offsets in m.task_offsets:
        _write_task_offset(put, item_task_offsets, version)
    put(uvarint(len(m.task_end_offsets) + 1))
    for item_task_end_offsets in m.task_end_offsets:
        _write_task_offset(put, item_task_end_offsets, version)
    _write_assignment(put, m.assignment, version)
    _write_assignment(put, m.target_assignment, version)
    put(_fmt_B_.pack(m.is_classic))
    put(b"\0")


class DescribedGroup(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: Topology | None = None
    members: list[Member] = []
    authorized_operations: int = -2147483648
    topology_description: TopologyDescription | None = None
    topology_description_status: int = 0
    assignor_name: str | None = None


def _read_described_group(buf: Buffer, pos: int, version: int) -> tuple[DescribedGroup, int]:
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = read_compact_nullable_string(buf, pos)
    group_id, pos = read_compact_string(buf, pos)
    group_state, pos = read_compact_string(buf, pos)
    group_epoch, assignment_epoch = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    topology: Topology | None = None
    _present = buf[pos]
    pos += 1
    if _present == 1:
        topology, pos = _read_topology(buf, pos, version)
    _count, pos = read_compact_length(buf, pos)
    members: list[Member] = []
    for _ in range(_count):
        _members_item, pos = _read_member(buf, pos, version)
        members.append(_members_item)
    (authorized_operations,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    topology_description: TopologyDescription | None = None
    if version >= 1:
        topology_description = None
        _present = buf[pos]
        pos += 1
        if _present == 1:
            topology_description, pos = _read_topology_description(buf, pos, version)
    topology_description_status: int = 0
    if version >= 1:
        (topology_description_status,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    assignor_name: str | None = None
    if version >= 1:
        assignor_name, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribedGroup(error_code, error_message, group_id, group_state, group_epoch, assignment_epoch, topology, members, authorized_operations, topology_description, topology_description_status, assignor_name), pos


def _write_described_group(put: Put, m: DescribedGroup, version: int) -> None:
    put(_fmt_h.pack(m.error_code))
    put(compact_string(m.error_message))
    put(compact_string(m.group_id))
    put(compact_string(m.group_state))
    put(_fmt_ii.pack(m.group_epoch, m.assignment_epoch))
    if m.topology is None:
        put(b"\xff")
    else:
        put(b"\x01")
        _write_topology(put, m.topology, version)
    put(uvarint(len(m.members) + 1))
    for item_members in m.members:
        _write_member(put, item_members, version)
    put(_fmt_i.pack(m.authorized_operations))
    if version >= 1:
        if m.topology_description is None:
            put(b"\xff")
        else:
            put(b"\x01")
            _write_topology_description(put, m.topology_description, version)
    if version >= 1:
        put(_fmt_b.pack(m.topology_description_status))
    if version >= 1:
        put(compact_string(m.assignor_name))
    put(b"\0")


class StreamsGroupDescribeResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = []


def _read_streams_group_describe_response(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupDescribeResponse, int]:
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    groups: list[DescribedGroup] = []
    for _ in range(_count):
        _groups_item, pos = _read_described_group(buf, pos, version)
        groups.append(_groups_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StreamsGroupDescribeResponse(throttle_time_ms, groups), pos


def _write_streams_group_describe_response(put: Put, m: StreamsGroupDescribeResponse, version: int) -> None:
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.groups) + 1))
    for item_groups in m.groups:
        _write_described_group(put, item_groups, version)
    put(b"\0")


decode_request = _read_streams_group_describe_request
encode_request = _write_streams_group_describe_request
decode_response = _read_streams_group_describe_response
encode_response = _write_streams_group_describe_response
