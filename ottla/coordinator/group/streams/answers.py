"""Describes streams groups in responses: endpoints of members that serve interactive queries, and StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.group.streams.configuration import ConfiguredSubtopology, ConfiguredTopology, InternalTopic
from ottla.coordinator.group.streams.group import MemberTaskOffsets, StreamsGroup
from ottla.coordinator.group.streams.member import StreamsGroupMember
from ottla.coordinator.group.streams.requests import ASSIGNOR_NAME
from ottla.coordinator.group.streams.tasks import Tasks, TaskSet, task_ids, united, without_epochs
from ottla.coordinator.group.topics import GroupTopics
from ottla.protocol.messages import streams_group_describe as describe
from ottla.protocol.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition
from ottla.protocol.messages.streams_group_topology_value import Subtopology, TopicInfo

# describing endpoints for interactive queries


def endpoint_partitions(
    members: Iterable[StreamsGroupMember], configured: ConfiguredTopology, topics: GroupTopics
) -> list[EndpointToPartitions]:
    """Return the partitions whose state each endpoint serves. While topics are missing, members have no tasks and serve none."""
    listed = []
    for member in members:
        if member.user_endpoint is None:
            continue
        host, port = member.user_endpoint
        standbys = united(member.assigned.standby, member.assigned.warmup)
        listed.append(
            EndpointToPartitions(
                user_endpoint=Endpoint(host=host, port=port),
                active_partitions=_partitions(without_epochs(member.assigned.active), configured, topics),
                standby_partitions=_partitions(standbys, configured, topics),
            )
        )
    return listed


def _partitions(tasks: TaskSet, configured: ConfiguredTopology, topics: GroupTopics) -> list[TopicPartition]:
    """Return the partitions that the tasks read: in each source topic the partition with the task's number, if it exists."""
    listed = []
    for subtopology, partitions in sorted(tasks.items()):
        one = (configured.subtopologies or {}).get(subtopology)
        if one is None:
            continue
        for topic in sorted({*one.source_topics, *one.repartition_sources}):
            there = [partition for partition in sorted(partitions) if partition < topics.partition_count(topic)]
            if there:
                listed.append(TopicPartition(topic=topic, partitions=there))
    return listed


# answering StreamsGroupDescribe


def described(group: StreamsGroup) -> describe.DescribedGroup:
    topology = None
    if group.configured is not None and group.configured.is_ready and group.configured.subtopologies is not None:
        subtopologies = [_configured(i, one) for i, one in group.configured.subtopologies.items()]
        topology = describe.Topology(epoch=group.configured.epoch, subtopologies=subtopologies)
    elif group.topology is not None:
        subtopologies = [_as_sent(group.topology.subtopologies[i]) for i in sorted(group.topology.subtopologies)]
        topology = describe.Topology(epoch=group.topology.epoch, subtopologies=subtopologies)
    return describe.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.metadata.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=topology,
        members=[_member(group, member) for member in group.members.values()],
        assignor_name=ASSIGNOR_NAME,
    )


def _configured(subtopology_id: str, one: ConfiguredSubtopology) -> describe.Subtopology:
    return describe.Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(one.source_topics),
        repartition_sink_topics=sorted(one.repartition_sinks),
        state_changelog_topics=[_internal_topic(one.changelogs[name]) for name in sorted(one.changelogs)],
        repartition_source_topics=[_internal_topic(one.repartition_sources[name]) for name in sorted(one.repartition_sources)],
    )


def _as_sent(one: Subtopology) -> describe.Subtopology:
    """Describe a subtopology whose topics do not exist yet, with the application's partition counts, which may be 0."""
    return describe.Subtopology(
        subtopology_id=one.subtopology_id,
        source_topics=sorted(one.source_topics),
        repartition_sink_topics=sorted(one.repartition_sink_topics),
        state_changelog_topics=_topic_infos(one.state_changelog_topics),
        repartition_source_topics=_topic_infos(one.repartition_source_topics),
    )


def _topic_infos(topics: Iterable[TopicInfo]) -> list[describe.TopicInfo]:
    return [
        _topic_info(topic.name, topic.partitions, topic.replication_factor, {c.key: c.value for c in topic.topic_configs})
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _internal_topic(topic: InternalTopic) -> describe.TopicInfo:
    return _topic_info(topic.name, topic.partition_count, topic.replication_factor, topic.configs)


def _topic_info(name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> describe.TopicInfo:
    listed = [describe.KeyValue(key=key, value=value) for key, value in configs.items()]
    return describe.TopicInfo(name=name, partitions=partitions, replication_factor=replication_factor, topic_configs=listed)


def _member(group: StreamsGroup, member: StreamsGroupMember) -> describe.Member:
    reported = group.task_offsets.get(member.member_id, MemberTaskOffsets())
    endpoint = member.user_endpoint
    return describe.Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else describe.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[describe.KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        task_offsets=_offsets(reported.offsets),
        task_end_offsets=_offsets(reported.end_offsets),
        assignment=_assignment(without_epochs(member.assigned.active), member.assigned.standby, member.assigned.warmup),
        target_assignment=_target(group.targets.get(member.member_id, Tasks())),
    )


def _offsets(offsets: Mapping[str, Mapping[int, int]]) -> list[describe.TaskOffset]:
    return [
        describe.TaskOffset(subtopology_id=subtopology, partition=partition, offset=offsets[subtopology][partition])
        for subtopology in sorted(offsets)
        for partition in sorted(offsets[subtopology])
    ]


def _target(tasks: Tasks) -> describe.Assignment:
    return _assignment(tasks.active, tasks.standby, tasks.warmup)


def _assignment(active: TaskSet, standby: TaskSet, warmup: TaskSet) -> describe.Assignment:
    return describe.Assignment(
        active_tasks=task_ids(describe.TaskIds, active),
        standby_tasks=task_ids(describe.TaskIds, standby),
        warmup_tasks=task_ids(describe.TaskIds, warmup),
    )
