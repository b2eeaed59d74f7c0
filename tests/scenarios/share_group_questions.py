"""What the members of share groups ask, and admins about them; and the order: each question finds what the ones before have left.

Apache Kafka begins the states of newly shared partitions after the heartbeat that asks for them is answered: until that is done no
further question is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from ottla.protocol.messages.share_fetch import AcknowledgementBatch as PiggybackedBatch
from ottla.protocol.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.scenarios.setting import NO_SUCH_ID, Questions, Setting
from tests.support.raw_client import retry

GROUP_RESOURCE = 32
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
MAX_WAIT_MS = 5_000
Batches = Sequence[tuple[int, int, Sequence[int]]]
"""First offset, last offset, types."""


class Asking:
    """Requests about one group and one topic."""

    def __init__(self, setting: Setting, group: str, topic: str) -> None:
        self._setting = setting
        self.group = group
        self.topic = setting.name(topic)
        self.topic_id = setting.id(topic)

    # members and admins

    def beat(self, member: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(**{"group_id": self.group, "member_id": member, "member_epoch": epoch, **fields})

    def join(self, member: str, *topics: str, **fields: Any) -> ShareGroupHeartbeatRequest:
        return self.beat(member, 0, **{"subscribed_topic_names": list(topics or (self.topic,)), **fields})

    def initialized(self, count: int) -> None:
        """Until the share coordinator knows of as many partitions."""

        def known(answer: Any) -> bool:
            return sum(len(topic.partitions) for topic in answer.groups[0].topics) >= count

        retry(lambda: self._setting.call(self.offsets(), 1), known)

    def describe(self) -> ShareGroupDescribeRequest:
        return ShareGroupDescribeRequest(group_ids=[self.group], include_authorized_operations=True)

    def offsets(self, *partitions: int, topic: str | None = None) -> DescribeShareGroupOffsetsRequest:
        named = DescribeShareGroupOffsetsRequestTopic(topic_name=topic or self.topic, partitions=list(partitions))
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=[named] if partitions or topic else None)
        return DescribeShareGroupOffsetsRequest(groups=[asked])

    def alter(self, starts: dict[int, int], topic: str | None = None, **fields: Any) -> AlterShareGroupOffsetsRequest:
        partitions = [AlterShareGroupOffsetsRequestPartition(partition_index=p, start_offset=o) for p, o in starts.items()]
        asked = AlterShareGroupOffsetsRequestTopic(topic_name=topic or self.topic, partitions=partitions)
        return AlterShareGroupOffsetsRequest(**{"group_id": self.group, "topics": [asked], **fields})

    def delete(self, *topics: str, **fields: Any) -> DeleteShareGroupOffsetsRequest:
        asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics or (self.topic,)]
        return DeleteShareGroupOffsetsRequest(**{"group_id": self.group, "topics": asked, **fields})

    def set(self, **configs: str) -> None:
        listed = [AlterableConfig(name=f"share.{name.replace('_', '.')}", value=value) for name, value in configs.items()]
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=self.group, configs=listed)
        answer = self._setting.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0

    # records

    def fetch(
        self, epoch: int, *batches: tuple[int, int, Sequence[int]], partition: int = 0, topic_id: bytes | None = None, **fields: Any
    ) -> ShareFetchRequest:
        said = [PiggybackedBatch(first_offset=f, last_offset=last, acknowledge_types=list(t)) for f, last, t in batches]
        asked = FetchPartition(partition_index=partition, acknowledgement_batches=said)
        is_named = epoch == 0 or batches or topic_id is not None or partition
        options: dict[str, Any] = {
            "group_id": self.group,
            "member_id": "a",
            "share_session_epoch": epoch,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [FetchTopic(topic_id=topic_id or self.topic_id, partitions=[asked])] if is_named else [],
        }
        return ShareFetchRequest(**{**options, **fields})

    def acknowledge(
        self, epoch: int, *batches: tuple[int, int, Sequence[int]], partition: int = 0, topic_id: bytes | None = None, **fields: Any
    ) -> ShareAcknowledgeRequest:
        said = [AcknowledgementBatch(first_offset=f, last_offset=last, acknowledge_types=list(t)) for f, last, t in batches]
        asked = AcknowledgePartition(partition_index=partition, acknowledgement_batches=said)
        options: dict[str, Any] = {
            "group_id": self.group,
            "member_id": "a",
            "share_session_epoch": epoch,
            "topics": [AcknowledgeTopic(topic_id=topic_id or self.topic_id, partitions=[asked])],
        }
        return ShareAcknowledgeRequest(**{**options, **fields})


def share_groups(setting: Setting, version: int) -> Questions:
    # Of two members of a group Kafka gives the partitions of a topic to the one or the other by its id: a topic of one partition.
    ask = Asking(setting, setting.name(f"sharing-{version}"), "one")
    yield "goes on in no group", ask.beat("a", 3)
    yield "leaves no group", ask.beat("a", -1)
    yield "describe no group", ask.describe()
    yield "offsets of no group", ask.offsets()
    yield "offsets of a partition in no group", ask.offsets(0)
    yield "delete offsets of no group", ask.delete()
    yield from _wrong(ask)
    yield "joins", ask.join("a")
    ask.initialized(1)
    yield "goes on", ask.beat("a", 2)
    yield "goes on with nothing new", ask.beat("a", 3)
    yield "says all", ask.beat("a", 3, subscribed_topic_names=[ask.topic])
    yield "describe", ask.describe()
    yield "a second one joins", ask.join("b", rack_id="r")
    yield "the first goes on", ask.beat("a", 3)
    yield "the second goes on", ask.beat("b", 4)
    yield "the first begins anew", ask.join("a")
    yield "describe two", ask.describe()
    yield "a greater epoch", ask.beat("a", 9)
    yield "a smaller epoch", ask.beat("a", 1)
    yield "the epoch of before", ask.beat("a", 3)
    yield "a stranger", ask.beat("x", 4)
    yield "a stranger leaves", ask.beat("x", -1)
    yield "another subscription", ask.beat("b", 4, subscribed_topic_names=[setting.name("two"), setting.name("none")])
    ask.initialized(3)
    yield "the other topic", ask.beat("b", 5)
    yield "the first has all of its topic", ask.beat("a", 4)
    yield "offsets of the other topic", ask.offsets(0, topic=setting.name("two"))
    yield "offsets of the topic", ask.offsets(0)
    yield "offsets of no topic", ask.offsets(0, 3, topic=setting.name("none"))
    yield "alter offsets with members", ask.alter({0: 1})
    yield "delete offsets with members", ask.delete()
    yield from _other_types(setting, ask)
    yield "one leaves", ask.beat("b", -1)
    yield "the other goes on", ask.beat("a", 6)
    yield "delete with members", DeleteGroupsRequest(groups_names=[ask.group])
    yield "the last leaves", ask.beat("a", -1)
    yield "describe nobody", ask.describe()
    yield "alter offsets", ask.alter({0: 1, 7: 2})
    yield "alter offsets of no topic", ask.alter({0: 1}, setting.name("none"))
    yield "altered offsets", ask.offsets(0)
    yield "alter nothing", ask.alter({}, topics=[])
    yield "alter offsets of no group", ask.alter({0: 1}, group_id="")
    yield "delete offsets", ask.delete(ask.topic, setting.name("none"))
    yield "delete offsets again", ask.delete()
    yield "delete offsets of no group id", ask.delete(group_id="")
    yield "deleted offsets", ask.offsets(0)
    yield "delete", DeleteGroupsRequest(groups_names=[ask.group])
    yield "describe what is deleted", ask.describe()
    new = Asking(setting, setting.name(f"altered-{version}"), "two")
    yield "alter offsets of a new group", new.alter({1: 5})
    yield "describe a new group", new.describe()
    yield "offsets of a new group", new.offsets(1)


def _wrong(ask: Asking) -> Questions:
    for label, fields in (
        ("no group", {"group_id": ""}),
        ("a blank group", {"group_id": " "}),
        ("no member", {"member_id": ""}),
        ("a blank member", {"member_id": " "}),
        ("a long member", {"member_id": "x" * 37}),
        ("an empty rack", {"rack_id": ""}),
        ("no topics", {"subscribed_topic_names": []}),
        ("no list of topics", {"subscribed_topic_names": None}),
        ("an epoch of nobody", {"member_epoch": -2}),
    ):
        yield label, ask.join("a", **fields)


def _other_types(setting: Setting, ask: Asking) -> Questions:
    yield (
        "a consumer joins",
        ConsumerGroupHeartbeatRequest(
            group_id=ask.group,
            member_id="c",
            member_epoch=0,
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=[ask.topic],
            topic_partitions=[],
        ),
    )
    yield (
        "a classic member joins",
        JoinGroupRequest(
            group_id=ask.group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
    )
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    committed = OffsetCommitRequestTopic(name=ask.topic, topic_id=ask.topic_id, partitions=[partition])
    yield (
        "a commit",
        OffsetCommitRequest(group_id=ask.group, member_id="a", generation_id_or_member_epoch=4, topics=[committed]),
    )
    yield "committed offsets", OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=ask.group, topics=None)])
    yield "described as a consumer group", ConsumerGroupDescribeRequest(group_ids=[ask.group])
    yield "described as a classic group", DescribeGroupsRequest(groups=[ask.group])
    classic = Asking(setting, setting.name("first-classic"), "two")
    setting.call(OffsetCommitRequest(group_id=classic.group, member_id="", generation_id_or_member_epoch=-1, topics=[committed]), 8)
    yield "a group of offsets", classic.join("a")
    yield "a group of offsets described", classic.describe()
    yield "alter a group of offsets", classic.alter({0: 1})
    yield "delete offsets of a group of offsets", classic.delete()


def share_fetches(setting: Setting, version: int) -> Questions:
    ask = Asking(setting, setting.name(f"fetching-{version}"), "full")
    ask.set(auto_offset_reset="earliest")
    yield "joins", ask.join("a")
    ask.initialized(1)
    yield "no session", ask.fetch(1)
    yield "no session to end", ask.fetch(-1)
    yield "acknowledge without a session", ask.acknowledge(1, (0, 0, [ACCEPT]))
    yield "acknowledge at first", ask.acknowledge(0, (0, 0, [ACCEPT]))
    yield "acknowledge with the first fetch", ask.fetch(0, (0, 0, [ACCEPT]))
    for label, fields in (
        ("no group", {"group_id": None}),
        ("no member", {"member_id": None}),
        ("an empty member", {"member_id": ""}),
        ("a long member", {"member_id": "x" * 37}),
    ):
        yield f"fetch, {label}", ask.fetch(0, **fields)
        yield f"acknowledge, {label}", ask.acknowledge(1, (0, 0, [ACCEPT]), **fields)
    yield "acquire", ask.fetch(0, max_wait_ms=MAX_WAIT_MS)
    yield "nothing more", ask.fetch(1)
    yield "no records wanted", ask.fetch(2, max_records=0)
    yield "no bytes wanted", ask.fetch(3, max_bytes=0)
    yield "a wrong epoch", ask.fetch(9)
    yield "acknowledge at a wrong epoch", ask.acknowledge(9, (0, 0, [ACCEPT]))
    yield "one of each", ask.acknowledge(4, (0, 2, [ACCEPT, RELEASE, REJECT]))
    yield "acquire again", ask.fetch(5, max_wait_ms=MAX_WAIT_MS)
    yield from _wrong_acknowledgements(ask, 6)
    yield "offsets", ask.offsets(0)
    yield "release with a fetch", ask.fetch(18, (1, 1, [RELEASE]), max_wait_ms=MAX_WAIT_MS)
    yield "an unknown topic", ask.fetch(19, topic_id=NO_SUCH_ID)
    yield "an unknown topic still", ask.fetch(20)
    yield "forget it", ask.fetch(21, forgotten_topics_data=[ForgottenTopic(topic_id=NO_SUCH_ID, partitions=[0])])
    yield "a partition beyond", ask.fetch(22, partition=4)
    yield "forget that", ask.fetch(23, forgotten_topics_data=[ForgottenTopic(topic_id=ask.topic_id, partitions=[4])])
    if version >= 2:
        renewal = {"is_renew_ack": True, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        yield "renew", ask.fetch(24, (1, 1, [RENEW]), **renewal)
        yield "renew alone", ask.acknowledge(25, (1, 1, [RENEW]), is_renew_ack=True)
        yield "renew and fetch", ask.fetch(26, (1, 1, [RENEW]), is_renew_ack=True)
        yield "renew without saying so", ask.acknowledge(26, (1, 1, [RENEW]))
        yield "accept and end", ask.fetch(-1, (1, 1, [ACCEPT]))
    else:
        yield "renew", ask.acknowledge(24, (1, 1, [RENEW]))
        yield "accept and end", ask.acknowledge(-1, (1, 1, [ACCEPT]))
    yield "after the end", ask.fetch(27)
    yield "offsets at the end", ask.offsets(0)
    limited = Asking(setting, setting.name(f"limited-{version}"), "full")
    limited.set(auto_offset_reset="earliest")
    yield "joins another group", limited.join("a")
    limited.initialized(1)
    yield "two records", limited.fetch(0, max_wait_ms=MAX_WAIT_MS, max_records=2)
    yield "the session ends", limited.fetch(-1)
    if version >= 2:
        yield "two and no more", limited.fetch(0, max_wait_ms=MAX_WAIT_MS, max_records=2, share_acquire_mode=1)
        yield "the rest", limited.fetch(1, max_wait_ms=MAX_WAIT_MS, max_records=2, share_acquire_mode=1)
    yield (
        "a group that nobody has joined",
        Asking(setting, setting.name(f"unjoined-{version}"), "full").fetch(0, max_wait_ms=MAX_WAIT_MS),
    )


def _wrong_acknowledgements(ask: Asking, epoch: int) -> Questions:
    """Twelve of them, at one epoch after the other."""
    cases: list[tuple[str, Batches, dict[str, Any]]] = [
        ("what is done with", [(0, 0, [ACCEPT])], {}),
        ("what is given up", [(2, 2, [ACCEPT])], {}),
        ("beyond the end", [(7, 8, [ACCEPT])], {}),
        ("over the end", [(1, 8, [ACCEPT])], {}),
        ("from the end to the start", [(1, 0, [ACCEPT])], {}),
        ("no type", [(1, 1, [])], {}),
        ("too many types", [(1, 1, [ACCEPT, ACCEPT])], {}),
        ("no such type", [(1, 1, [9])], {}),
        ("a negative type", [(1, 1, [-1])], {}),
        ("in the wrong order", [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])], {}),
        ("an unknown topic", [(1, 1, [ACCEPT])], {"topic_id": NO_SUCH_ID}),
        ("a partition beyond", [(1, 1, [ACCEPT])], {"partition": 4}),
    ]
    for at, (label, batches, fields) in enumerate(cases):
        yield f"acknowledge {label}", ask.acknowledge(epoch + at, *batches, **fields)


SHARE_GROUP_QUESTIONS = {"ShareGroupHeartbeat": share_groups, "ShareFetch": share_fetches}
