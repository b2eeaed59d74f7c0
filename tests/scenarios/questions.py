"""Requests that are right or slightly wrong, for two brokers to be asked the same: label and request, by API and version.

A question may change what a later one of the same list finds; names are fresh for each version.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.primitives import NO_UUID
from tests.scenarios.access_questions import ACCESS_QUESTIONS
from tests.scenarios.config_questions import CONFIG_QUESTIONS
from tests.scenarios.consumer_questions import CONSUMER_QUESTIONS
from tests.scenarios.group_questions import GROUP_QUESTIONS
from tests.scenarios.record_questions import RECORD_QUESTIONS
from tests.scenarios.setting import NO_SUCH_ID, NO_SUCH_NODE, NO_SUCH_PRODUCER, TIMEOUT_MS, Questions, Setting
from tests.scenarios.share_group_questions import SHARE_GROUP_QUESTIONS
from tests.scenarios.share_questions import SHARE_QUESTIONS, share_coordinators
from tests.scenarios.streams_questions import STREAMS_QUESTIONS
from tests.scenarios.tool_questions import TOOL_QUESTIONS
from tests.scenarios.transaction_questions import TRANSACTION_QUESTIONS


def metadata(setting: Setting, version: int) -> Questions:
    one, two = setting.name("one"), setting.name("two")

    def ask(*names: str, operations: bool = False) -> MetadataRequest:
        return MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=operations,
            include_topic_authorized_operations=operations,
        )

    yield "a topic", ask(two)
    yield "a topic twice", ask(two, one, two)
    yield "no such topic", ask(setting.name("none"))
    yield "a bad name", ask("a b")
    yield "an empty name", ask("")
    yield "with operations", ask(two, setting.name("none"), operations=True)
    yield "a bad name with operations", ask("a b", operations=True)
    if version:
        yield "no topics", ask()
    if version >= 10:
        yield (
            "an id",
            MetadataRequest(topics=[MetadataRequestTopic(topic_id=setting.id("two"), name=None)], allow_auto_topic_creation=False),
        )
        yield (
            "an id and an empty name",
            MetadataRequest(topics=[MetadataRequestTopic(topic_id=setting.id("two"), name="")], allow_auto_topic_creation=False),
        )
        yield (
            "an id and its name",
            MetadataRequest(topics=[MetadataRequestTopic(topic_id=setting.id("two"), name=two)], allow_auto_topic_creation=False),
        )
        yield (
            "no such id",
            MetadataRequest(topics=[MetadataRequestTopic(topic_id=NO_SUCH_ID, name=None)], allow_auto_topic_creation=False),
        )
        yield (
            "no such id, with operations",
            MetadataRequest(
                topics=[MetadataRequestTopic(topic_id=NO_SUCH_ID, name=None)],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=True,
            ),
        )


def create_topics(setting: Setting, version: int) -> Questions:
    def name(stem: str) -> str:
        return setting.name(f"made-{stem}-{version}")

    def ask(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
        return CreateTopicsRequest(topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only)

    def assigned(*nodes: tuple[int, list[int]], count: int = -1) -> CreateTopicsRequest:
        assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in nodes]
        return ask(
            CreatableTopic(
                name=name("assigned"), num_partitions=count, replication_factor=-1 if count == -1 else 1, assignments=assignments
            )
        )

    def configured(key: str, value: str | None) -> CreateTopicsRequest:
        return ask(
            CreatableTopic(
                name=name("configured"),
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value)],
            )
        )

    yield "two partitions", ask(CreatableTopic(name=name("new"), num_partitions=2, replication_factor=1))
    yield "again", ask(CreatableTopic(name=name("new"), num_partitions=2, replication_factor=1))
    yield "defaults", ask(CreatableTopic(name=name("defaults"), num_partitions=-1, replication_factor=-1))
    for count, factor in ((0, 1), (-5, 1), (1, 0), (1, 2)):
        yield (
            f"{count} partitions, factor {factor}",
            ask(CreatableTopic(name=name("bad"), num_partitions=count, replication_factor=factor)),
        )
    for bad in ("a b", "..", "x" * 250, "", "__consumer_offsets/"):
        yield f"the name {bad[:20]!r}", ask(CreatableTopic(name=bad, num_partitions=1, replication_factor=1))
    yield (
        "twice",
        ask(
            CreatableTopic(name=name("twice"), num_partitions=1, replication_factor=1),
            CreatableTopic(name=name("twice"), num_partitions=1, replication_factor=1),
        ),
    )
    yield (
        "names that collide",
        ask(
            CreatableTopic(name=name("new_"), num_partitions=1, replication_factor=1),
            CreatableTopic(name=name("new."), num_partitions=1, replication_factor=1),
        ),
    )
    for key, value in (("retention.mss", "1"), ("retention.ms", "x"), ("segment.bytes", "1"), ("cleanup.policy", "no")):
        yield f"{key}={value}", configured(key, value)
    yield "a config of null", configured("retention.ms", None)
    bad = CreatableTopicConfig(name="retention.ms", value="x")
    for stem in ("new", "other"):
        for count, factor in ((0, 1), (1, 0), (1, 2)):
            yield (
                f"{stem}, {count} partitions, factor {factor}",
                ask(CreatableTopic(name=name(stem), num_partitions=count, replication_factor=factor)),
            )
            for value in ("x", None):
                configs = [CreatableTopicConfig(name="retention.ms", value=value)]
                label = f"{stem}, {count} partitions, factor {factor}, retention.ms={value}"
                yield label, ask(CreatableTopic(name=name(stem), num_partitions=count, replication_factor=factor, configs=configs))
        yield f"{stem}, a bad config", ask(CreatableTopic(name=name(stem), num_partitions=1, replication_factor=1, configs=[bad]))
        yield (
            f"{stem}, assigned to nobody",
            ask(
                CreatableTopic(
                    name=name(stem),
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[])],
                    configs=[bad],
                )
            ),
        )
        yield (
            f"{stem}, a count and assignments",
            ask(
                CreatableTopic(
                    name=name(stem),
                    num_partitions=1,
                    replication_factor=-1,
                    assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[])],
                    configs=[bad],
                )
            ),
        )
    yield "a bad name and no partitions", ask(CreatableTopic(name="a b", num_partitions=0, replication_factor=1, configs=[bad]))
    yield (
        "a bad name twice",
        ask(
            CreatableTopic(name="a b", num_partitions=1, replication_factor=1),
            CreatableTopic(name="a b", num_partitions=1, replication_factor=1),
        ),
    )
    yield (
        "a config twice",
        ask(
            CreatableTopic(
                name=name("other"),
                num_partitions=1,
                replication_factor=1,
                configs=[bad, CreatableTopicConfig(name="retention.ms", value="1")],
            ),
            validate_only=True,
        ),
    )
    node = setting.node_id
    yield "assignments and a count", assigned((0, [node]), count=1)
    yield "a gap in the assignments", assigned((1, [node]))
    yield "assigned to no such broker", assigned((0, [NO_SUCH_NODE]))
    yield "assigned to a broker twice", assigned((0, [node, node]))
    yield "assigned to nobody", assigned((0, []))
    yield "assigned", assigned((0, [node]), (1, [node]))
    yield "nothing", ask()


def create_partitions(setting: Setting, version: int) -> Questions:
    def ask(*wanted: tuple[str, int], nodes: list[list[int]] | None = None, validate_only: bool = False) -> CreatePartitionsRequest:
        assignments = None if nodes is None else [CreatePartitionsAssignment(ids) for ids in nodes]
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=assignments) for name, count in wanted]
        return CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=validate_only)

    topic = setting.name(f"grown-{version}")
    yield "only validated", ask((topic, 2), validate_only=True)
    yield "two", ask((topic, 2))
    for count in (2, 1, 0, -1):
        yield f"to {count}", ask((topic, count))
    yield "no such topic", ask((setting.name("none"), 2))
    yield "a topic twice", ask((topic, 3), (topic, 4))
    yield "three, assigned", ask((topic, 3), nodes=[[setting.node_id]])
    for nodes in ([[setting.node_id]] * 2, [[NO_SUCH_NODE]], [[setting.node_id] * 2], [[]], []):
        yield f"four, assigned to {len(nodes)} lists of {[len(ids) for ids in nodes]}", ask((topic, 4), nodes=nodes)
    yield "nothing", ask()


def delete_topics(setting: Setting, version: int) -> Questions:
    def ask(*topics: tuple[str | None, bytes]) -> DeleteTopicsRequest:
        names = [name for name, _ in topics if name is not None]
        return DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics],
            topic_names=names,
            timeout_ms=TIMEOUT_MS,
        )

    one, two = setting.name(f"gone-one-{version}"), setting.name(f"gone-two-{version}")
    yield "a topic", ask((one, NO_UUID))
    yield "again", ask((one, NO_UUID))
    yield "a topic twice", ask((two, NO_UUID), (two, NO_UUID))
    for bad in ("a b", ""):
        yield f"the name {bad!r}", ask((bad, NO_UUID))
    yield "nothing", ask()
    if version >= 6:
        yield "no such id", ask((None, NO_SUCH_ID))
        yield "neither", ask((None, NO_UUID))
        yield "both", ask((two, setting.ids[two]))
        yield "an id twice", ask((None, setting.ids[two]), (None, setting.ids[two]))
        yield "an id", ask((None, setting.ids[two]))


def delete_records(setting: Setting, version: int) -> Questions:
    def ask(topic: str, index: int, offset: int) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)])],
            timeout_ms=TIMEOUT_MS,
        )

    cut = setting.name(f"cut-{version}")
    for offset in (1, 0, 4, -2, -1):
        yield f"before {offset}", ask(cut, 0, offset)
    yield "no such topic", ask(setting.name("none"), 0, 0)
    yield "no such partition", ask(cut, 9, 0)
    yield "of a compacted topic", ask(setting.name("compact"), 0, 0)
    yield "of an internal topic", ask("__consumer_offsets", 0, 0)


def list_offsets(setting: Setting, version: int) -> Questions:
    full = setting.name("full")

    def ask(topic: str, *partitions: tuple[int, int], epoch: int = -1, isolation: int = 0) -> ListOffsetsRequest:
        asked = [
            ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
            for index, timestamp in partitions
        ]
        return ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=asked)], timeout_ms=TIMEOUT_MS
        )

    for timestamp in (-1, -2, -3, -4, -5, -7, 0, 1 << 60):
        yield f"at {timestamp}", ask(full, (0, timestamp))
    yield "committed", ask(full, (0, -1), isolation=1)
    yield "an empty partition", ask(setting.name("two"), (1, -3))
    yield "no such topic", ask(setting.name("none"), (0, -1))
    yield "no such partition", ask(full, (8, -1))
    yield "an epoch to come", ask(full, (0, -1), epoch=4)
    yield "a partition twice", ask(full, (0, -1), (0, -2))
    yield "at -6", ask(full, (0, -6))
    if version >= 2:
        yield "isolation 2", ask(full, (0, -1), isolation=2)


def leader_epochs(setting: Setting, version: int) -> Questions:
    def ask(topic: str, index: int, epoch: int, current: int = -1) -> OffsetForLeaderEpochRequest:
        asked = OffsetForLeaderTopic(
            topic=topic, partitions=[OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)]
        )
        return OffsetForLeaderEpochRequest(replica_id=-1, topics=[asked])

    for stem in ("full", "one"):
        for epoch in (-1, 0, 1, 9):
            yield f"{stem}, epoch {epoch}", ask(setting.name(stem), 0, epoch)
    yield "no such topic", ask(setting.name("none"), 0, 0)
    yield "no such partition", ask(setting.name("one"), 9, 0)
    yield "a current epoch to come", ask(setting.name("one"), 0, 0, current=8)


def cluster(setting: Setting, version: int) -> Questions:
    yield "the brokers", DescribeClusterRequest()
    yield "with operations", DescribeClusterRequest(True)
    if version:
        for endpoint_type in (2, 9, 0):
            yield (
                f"endpoints of type {endpoint_type}",
                DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=endpoint_type),
            )


def producer_ids(setting: Setting, version: int) -> Questions:
    x, y = setting.name(f"x{version}"), setting.name(f"y{version}")
    yield "no id", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    yield "no id, no time", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    yield "an empty id", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
    yield "an id", InitProducerIdRequest(transactional_id=x, transaction_timeout_ms=60_000)
    yield "again", InitProducerIdRequest(transactional_id=x, transaction_timeout_ms=60_000)
    for timeout_ms in (0, -1, 900_001):
        yield f"a time-out of {timeout_ms}", InitProducerIdRequest(transactional_id=y, transaction_timeout_ms=timeout_ms)
    if version >= 3:
        for producer_id, epoch in ((5, -1), (-1, 0), (NO_SUCH_PRODUCER, 0), (-5, 0)):
            yield (
                f"from producer {producer_id} epoch {epoch}",
                InitProducerIdRequest(
                    transactional_id=x, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
                ),
            )


def fetched_offsets(setting: Setting, version: int) -> Questions:
    def ask(group: str, topics: dict[str, list[int]] | None) -> OffsetFetchRequest:
        if version < 8:
            older = (
                None
                if topics is None
                else [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
            )
            return OffsetFetchRequest(group_id=group, topics=older)
        newer = None
        if topics is not None:
            newer = [
                OffsetFetchRequestTopics(name="", topic_id=setting.ids.get(name, NO_SUCH_ID), partition_indexes=indexes)
                if version >= 10
                else OffsetFetchRequestTopics(name=name, topic_id=NO_UUID, partition_indexes=indexes)
                for name, indexes in topics.items()
            ]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=newer)])

    group = setting.name("nobody")
    yield "two partitions", ask(group, {setting.name("one"): [0, 1]})
    yield "no such topic", ask(group, {setting.name("none"): [0]})
    yield "no topics", ask(group, {})
    if version >= 2:
        yield "all topics", ask(group, None)


def coordinators(setting: Setting, version: int) -> Questions:
    yield from GROUP_QUESTIONS["FindCoordinator"](setting, version)
    yield from share_coordinators(setting, version)


QUESTIONS: dict[str, Callable[[Setting, int], Questions]] = {
    "Metadata": metadata,
    "CreateTopics": create_topics,
    "CreatePartitions": create_partitions,
    "DeleteTopics": delete_topics,
    "DeleteRecords": delete_records,
    "ListOffsets": list_offsets,
    "OffsetForLeaderEpoch": leader_epochs,
    "DescribeCluster": cluster,
    "InitProducerId": producer_ids,
    "OffsetFetch": fetched_offsets,
    **CONFIG_QUESTIONS,
    **GROUP_QUESTIONS,
    **CONSUMER_QUESTIONS,
    **RECORD_QUESTIONS,
    **TOOL_QUESTIONS,
    **ACCESS_QUESTIONS,
    **TRANSACTION_QUESTIONS,
    **SHARE_QUESTIONS,
    **SHARE_GROUP_QUESTIONS,
    **STREAMS_QUESTIONS,
    "FindCoordinator": coordinators,
}
