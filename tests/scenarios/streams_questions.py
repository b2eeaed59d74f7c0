"""What the coordinator of a streams group is asked, and the order in which: each question finds what the ones before have left.

Other APIs are asked at their newest version. Internal topics are only such as cannot be made: when Apache Kafka has made one is not
certain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from ottla.protocol.messages.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from tests.scenarios.setting import Questions, Setting


class Asking:
    """Requests about one group, whose topology reads the topic ``two``."""

    def __init__(self, setting: Setting, group: str) -> None:
        self.group = group
        self.topic = setting.name("two")
        self.topic_id = setting.id("two")

    def topology(self, *, epoch: int = 0, **fields: Any) -> Topology:
        one = Subtopology(subtopology_id="0", **{"source_topics": [self.topic], **fields})
        return Topology(epoch=epoch, subtopologies=[one])

    def beat(self, member: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
        return StreamsGroupHeartbeatRequest(**{"group_id": self.group, "member_id": member, "member_epoch": epoch, **fields})

    def join(self, member: str, **fields: Any) -> StreamsGroupHeartbeatRequest:
        news: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        news |= {"topology": self.topology(), "rebalance_timeout_ms": 60_000, "process_id": member, "client_tags": []}
        return self.beat(member, 0, **{**news, **fields})

    def owning(self, member: str, epoch: int, *partitions: int, subtopology: str = "0") -> StreamsGroupHeartbeatRequest:
        tasks = [TaskIds(subtopology_id=subtopology, partitions=list(partitions))] if partitions else []
        return self.beat(member, epoch, active_tasks=tasks, standby_tasks=[], warmup_tasks=[])

    def describe(self) -> StreamsGroupDescribeRequest:
        return StreamsGroupDescribeRequest(group_ids=[self.group], include_topology_description=True)

    def commit(self, member: str, epoch: int, topic: str = "", topic_id: bytes = b"") -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
        committed = OffsetCommitRequestTopic(name=topic or self.topic, topic_id=topic_id or self.topic_id, partitions=[partition])
        return OffsetCommitRequest(group_id=self.group, member_id=member, generation_id_or_member_epoch=epoch, topics=[committed])

    def fetch(self, member: str | None, epoch: int) -> OffsetFetchRequest:
        topic = OffsetFetchRequestTopics(name=self.topic, topic_id=self.topic_id, partition_indexes=[0])
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.group, member_id=member, member_epoch=epoch, topics=[topic])]
        )

    def join_classic(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )


def streams_groups(setting: Setting, version: int) -> Questions:
    ask = Asking(setting, setting.name(f"streams-{version}"))
    yield "goes on in no group", ask.beat("a", 3)
    yield "leaves no group", ask.beat("a", -1)
    yield "describe no group", ask.describe()
    yield from _wrong(ask)
    yield from _wrong_topologies(ask)
    yield "joins", ask.join("a")
    yield "describe", ask.describe()
    yield "goes on", ask.owning("a", 2, 0, 1)
    yield "tells offsets", ask.beat("a", 2, task_offsets=[TaskOffset(subtopology_id="0", partition=1, offset=7)])
    yield "describe offsets", ask.describe()
    yield "a second one joins", ask.join("b", user_endpoint=Endpoint(host="h", port=9))
    yield "the first is to give up", ask.owning("a", 2, 0, 1)
    yield "the second waits", ask.owning("b", 3)
    yield "describe a rebalance", ask.describe()
    yield "the first has given up", ask.owning("a", 2, 0)
    yield "the second is given", ask.owning("b", 3)
    yield "describe two", ask.describe()
    yield from _wrong_in_the_group(ask)
    yield from _offsets(setting, ask)
    yield from _other_types(setting, ask)
    if version:
        update = StreamsGroupTopologyDescriptionUpdateRequest
        yield "a description", update(group_id=ask.group, member_id="a")
        yield "a description of nobody", update(group_id=ask.group, member_id="x")
        yield "a description without a member", update(group_id=ask.group)
        yield "a description of no group", update(member_id="a")
    yield "one leaves", ask.beat("b", -1)
    yield "the other takes all", ask.owning("a", 3, 0)
    yield "asks for the end", ask.beat("a", 4, shutdown_application=True)
    yield "is told of the end", ask.beat("a", 4)
    yield "the last leaves", ask.beat("a", -1)
    yield "describe nobody", ask.describe()
    yield "a consumer joins an empty one", _consumer(ask)
    yield "delete", DeleteGroupsRequest(groups_names=[ask.group])
    yield "describe what is deleted", ask.describe()
    yield from _static(Asking(setting, setting.name(f"static-{version}")))
    yield from _topologies(setting, Asking(setting, setting.name(f"topologies-{version}")))
    yield from _missing(setting, Asking(setting, setting.name(f"missing-{version}")))


def _wrong(ask: Asking) -> Questions:
    for label, fields in (
        ("no group", {"group_id": ""}),
        ("a blank group", {"group_id": " "}),
        ("no member", {"member_id": ""}),
        ("an empty instance", {"instance_id": ""}),
        ("an empty rack", {"rack_id": ""}),
        ("no rebalance time-out", {"rebalance_timeout_ms": -1}),
        ("no topology", {"topology": None}),
        ("no active tasks", {"active_tasks": None}),
        ("tasks", {"standby_tasks": [TaskIds(subtopology_id="0", partitions=[0])]}),
        ("an epoch below all", {"member_epoch": -3}),
        ("a topology at another epoch", {"member_epoch": 1}),
        ("a static one that is none", {"member_epoch": -2, "topology": None}),
    ):
        yield f"joins with {label}", ask.join("w", **fields)
    yield "some tasks", ask.beat("w", 1, active_tasks=[])


def _wrong_topologies(ask: Asking) -> Questions:
    changelog = TopicInfo(name="c", partitions=3)
    for label, fields in (
        ("an expression", {"source_topic_regex": ["a.*"]}),
        ("a count for a changelog", {"state_changelog_topics": [changelog]}),
        ("a negative count", {"repartition_source_topics": [TopicInfo(name="r", partitions=-1)]}),
        ("an internal topic", {"source_topics": ["__consumer_offsets"]}),
        ("a bad name", {"source_topics": ["a b"]}),
        ("no name", {"source_topics": [""]}),
        ("no sources", {"source_topics": []}),
        ("nothing that writes", {"repartition_source_topics": [TopicInfo(name="r")]}),
    ):
        yield f"a topology with {label}", ask.join("w", topology=ask.topology(**fields))


def _wrong_in_the_group(ask: Asking) -> Questions:
    yield "an unknown member", ask.beat("x", 3)
    yield "an unknown member leaves", ask.beat("x", -1)
    yield "an epoch ahead", ask.beat("a", 9)
    yield "an epoch behind", ask.beat("a", 1)
    yield "the epoch before, with more tasks", ask.owning("a", 2, 0, 1)
    yield "no such subtopology", ask.owning("a", 3, 0, subtopology="9")
    yield "no such task", ask.owning("a", 3, 7)
    yield "an unknown instance", ask.beat("a", 3, instance_id="i")
    twice = [TaskOffset(subtopology_id="0", partition=0, offset=1)] * 2
    yield "offsets twice", ask.beat("a", 3, task_offsets=twice)


def _offsets(setting: Setting, ask: Asking) -> Questions:
    yield "commit", ask.commit("a", 3)
    yield "commit at an epoch ahead", ask.commit("a", 4)
    yield "commit at an epoch behind", ask.commit("a", 1)
    yield "commit at the epoch of the task", ask.commit("a", 2)
    yield "commit what nobody reads", ask.commit("a", 2, setting.name("one"), setting.id("one"))
    yield "commit of an unknown member", ask.commit("x", 3)
    yield "commit of nobody", ask.commit("", -1)
    for member, epoch in (("a", 3), ("a", 2), ("x", 3), (None, -1)):
        yield f"fetch of {member} at {epoch}", ask.fetch(member, epoch)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=ask.topic, partitions=partitions)]
    yield "delete offsets", OffsetDeleteRequest(group_id=ask.group, topics=topics)


def _consumer(ask: Asking) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=ask.group,
        member_id="c",
        member_epoch=0,
        subscribed_topic_names=[ask.topic],
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
    )


def _other_types(setting: Setting, ask: Asking) -> Questions:
    yield "list", ListGroupsRequest(types_filter=["streams"], states_filter=["stable", "reconciling", "assigning"])
    yield "describe as a classic group", DescribeGroupsRequest(groups=[ask.group])
    yield "describe as a consumer group", ConsumerGroupDescribeRequest(group_ids=[ask.group])
    yield "a consumer joins", _consumer(ask)
    yield "a classic heartbeat", HeartbeatRequest(group_id=ask.group, generation_id=3, member_id="a")
    yield "a classic leave", LeaveGroupRequest(group_id=ask.group, members=[MemberIdentity(member_id="a")])
    yield "a classic join", ask.join_classic()
    yield "delete with members", DeleteGroupsRequest(groups_names=[ask.group])
    other = Asking(setting, f"{ask.group}-consumers")
    yield "a consumer group", _consumer(other)
    yield "joins a consumer group", other.join("a")
    yield "goes on in a consumer group", other.beat("a", 2)
    yield "leaves a consumer group", other.beat("c", -1)
    yield "describe a consumer group", other.describe()
    yield "the consumer leaves", ConsumerGroupHeartbeatRequest(group_id=other.group, member_id="c", member_epoch=-1)
    yield "joins an empty consumer group", other.join("a")
    classic = Asking(setting, f"{ask.group}-classic")
    yield "commit without a group", classic.commit("", -1)
    yield "describe a classic group", classic.describe()
    yield "goes on in a classic group", classic.beat("a", 2)
    yield "joins an empty classic group", classic.join("a")
    yield "fetch what the classic group has left", classic.fetch("a", 2)


def _static(ask: Asking) -> Questions:
    yield "a static one joins", ask.join("a", instance_id="i", client_tags=[KeyValue(key="zone", value="z")])
    yield "another in its place", ask.join("b", instance_id="i")
    yield "goes on under another id", ask.beat("b", 2, instance_id="i")
    yield "goes for a while", ask.beat("a", -2, instance_id="i")
    yield "describe who is away", ask.describe()
    yield "comes back", ask.join("b", instance_id="i")
    yield "the one before goes on", ask.beat("a", 2, instance_id="i")
    yield "describe who is back", ask.describe()
    yield "goes for good", ask.beat("b", -1, instance_id="i")


def _topologies(setting: Setting, ask: Asking) -> Questions:
    yield "a topology of epoch 1", ask.join("a", topology=ask.topology(epoch=1))
    yield "a stale topology epoch", ask.join("b", topology=ask.topology())
    yield "a stale topology that is another", ask.join("c", topology=ask.topology(source_topics=[setting.name("one")]))
    yield "another topology of the epoch", ask.join("d", topology=ask.topology(epoch=1, source_topics=[setting.name("one")]))
    yield "a newer topology", ask.join("d", topology=ask.topology(epoch=2))
    yield "describe topologies", ask.describe()


def _missing(setting: Setting, ask: Asking) -> Questions:
    none = setting.name("none")
    yield "a source that is missing", ask.join("a", topology=ask.topology(source_topics=[none]))
    yield "describe a missing source", ask.describe()
    yield "goes on without its source", ask.owning("a", 2)
    yield "leaves without its source", ask.beat("a", -1)
    other = Asking(setting, f"{ask.group}-changelog")
    changelog = TopicInfo(name=f"{ask.group}-c", replication_factor=3)
    yield "a changelog that cannot be made", other.join("a", topology=other.topology(state_changelog_topics=[changelog]))
    yield "goes on without its changelog", other.owning("a", 2)
    yield "describe a missing changelog", other.describe()
    third = Asking(setting, f"{ask.group}-counts")
    wrong = [TopicInfo(name=setting.name("one"))]
    yield "a changelog of another count", third.join("a", topology=third.topology(state_changelog_topics=wrong))
    yield "describe a changelog of another count", third.describe()


STREAMS_QUESTIONS: dict[str, Callable[[Setting, int], Questions]] = {
    "StreamsGroupHeartbeat": streams_groups,
}
