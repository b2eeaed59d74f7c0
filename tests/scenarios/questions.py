"""Requests that are right or slightly wrong, for two brokers to be asked the same: label and request, by API and version.

A question may change what a later one of the same list finds; names are fresh for each version.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
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
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
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
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.primitives import NO_UUID
from tests.scenarios.config_questions import CONFIG_QUESTIONS
from tests.scenarios.group_questions import GROUP_QUESTIONS
from tests.scenarios.record_questions import RECORD_QUESTIONS
from tests.scenarios.setting import NO_SUCH_ID, NO_SUCH_NODE, NO_SUCH_PRODUCER, TIMEOUT_MS, Questions, Setting


def metadata(setting: Setting, version: int) -> Questions:
    one, two = setting.name("one"), setting.name("two")

    def ask(*names: str, operations: bool = False) -> MetadataRequest:
        return MetadataRequest([MetadataRequestTopic(name=name) for name in names], False, operations, operations)

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
        yield "an id", MetadataRequest([MetadataRequestTopic(setting.id("two"), None)], False)
        yield "an id and an empty name", MetadataRequest([MetadataRequestTopic(setting.id("two"), "")], False)
        yield "an id and its name", MetadataRequest([MetadataRequestTopic(setting.id("two"), two)], False)
        yield "no such id", MetadataRequest([MetadataRequestTopic(NO_SUCH_ID, None)], False)
        yield "no such id, with operations", MetadataRequest([MetadataRequestTopic(NO_SUCH_ID, None)], False, False, True)


def create_topics(setting: Setting, version: int) -> Questions:
    def name(stem: str) -> str:
        return setting.name(f"made-{stem}-{version}")

    def ask(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
        return CreateTopicsRequest(list(topics), TIMEOUT_MS, validate_only)

    def assigned(*nodes: tuple[int, list[int]], count: int = -1) -> CreateTopicsRequest:
        assignments = [CreatableReplicaAssignment(index, ids) for index, ids in nodes]
        return ask(CreatableTopic(name("assigned"), count, -1 if count == -1 else 1, assignments))

    def configured(key: str, value: str | None) -> CreateTopicsRequest:
        return ask(CreatableTopic(name("configured"), 1, 1, configs=[CreatableTopicConfig(key, value)]))

    yield "two partitions", ask(CreatableTopic(name("new"), 2, 1))
    yield "again", ask(CreatableTopic(name("new"), 2, 1))
    yield "defaults", ask(CreatableTopic(name("defaults"), -1, -1))
    for count, factor in ((0, 1), (-5, 1), (1, 0), (1, 2)):
        yield f"{count} partitions, factor {factor}", ask(CreatableTopic(name("bad"), count, factor))
    for bad in ("a b", "..", "x" * 250, "", "__consumer_offsets/"):
        yield f"the name {bad[:20]!r}", ask(CreatableTopic(bad, 1, 1))
    yield "twice", ask(CreatableTopic(name("twice"), 1, 1), CreatableTopic(name("twice"), 1, 1))
    yield "names that collide", ask(CreatableTopic(name("new_"), 1, 1), CreatableTopic(name("new."), 1, 1))
    for key, value in (("retention.mss", "1"), ("retention.ms", "x"), ("segment.bytes", "1"), ("cleanup.policy", "no")):
        yield f"{key}={value}", configured(key, value)
    yield "a config of null", configured("retention.ms", None)
    bad = CreatableTopicConfig("retention.ms", "x")
    for stem in ("new", "other"):
        for count, factor in ((0, 1), (1, 0), (1, 2)):
            yield f"{stem}, {count} partitions, factor {factor}", ask(CreatableTopic(name(stem), count, factor))
            for value in ("x", None):
                configs = [CreatableTopicConfig("retention.ms", value)]
                label = f"{stem}, {count} partitions, factor {factor}, retention.ms={value}"
                yield label, ask(CreatableTopic(name(stem), count, factor, configs=configs))
        yield f"{stem}, a bad config", ask(CreatableTopic(name(stem), 1, 1, configs=[bad]))
        yield f"{stem}, assigned to nobody", ask(CreatableTopic(name(stem), -1, -1, [CreatableReplicaAssignment(0, [])], [bad]))
        yield f"{stem}, a count and assignments", ask(CreatableTopic(name(stem), 1, -1, [CreatableReplicaAssignment(0, [])], [bad]))
    yield "a bad name and no partitions", ask(CreatableTopic("a b", 0, 1, configs=[bad]))
    yield "a bad name twice", ask(CreatableTopic("a b", 1, 1), CreatableTopic("a b", 1, 1))
    yield (
        "a config twice",
        ask(CreatableTopic(name("other"), 1, 1, configs=[bad, CreatableTopicConfig("retention.ms", "1")]), validate_only=True),
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
        topics = [CreatePartitionsTopic(name, count, assignments) for name, count in wanted]
        return CreatePartitionsRequest(topics, TIMEOUT_MS, validate_only)

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
        return DeleteTopicsRequest([DeleteTopicState(*topic) for topic in topics], names, TIMEOUT_MS)

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
        return DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(index, offset)])], TIMEOUT_MS)

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
        asked = [ListOffsetsPartition(index, epoch, timestamp) for index, timestamp in partitions]
        return ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, asked)], TIMEOUT_MS)

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
        asked = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(index, current, epoch)])
        return OffsetForLeaderEpochRequest(-1, [asked])

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
            yield f"endpoints of type {endpoint_type}", DescribeClusterRequest(False, endpoint_type)


def producer_ids(setting: Setting, version: int) -> Questions:
    x, y = setting.name(f"x{version}"), setting.name(f"y{version}")
    yield "no id", InitProducerIdRequest(None, 60_000)
    yield "no id, no time", InitProducerIdRequest(None, 0)
    yield "an empty id", InitProducerIdRequest("", 60_000)
    yield "an id", InitProducerIdRequest(x, 60_000)
    yield "again", InitProducerIdRequest(x, 60_000)
    for timeout_ms in (0, -1, 900_001):
        yield f"a time-out of {timeout_ms}", InitProducerIdRequest(y, timeout_ms)
    if version >= 3:
        for producer_id, epoch in ((5, -1), (-1, 0), (NO_SUCH_PRODUCER, 0), (-5, 0)):
            yield f"from producer {producer_id} epoch {epoch}", InitProducerIdRequest(x, 60_000, producer_id, epoch)


def transactions(setting: Setting, version: int) -> Questions:
    """EndTxn at its versions, and AddOffsetsToTxn and TxnOffsetCommit at theirs as far as they go."""
    name = setting.name(f"t{version}")
    producer_id, epoch = setting.init(name)
    identities = {
        "an empty id": ("", producer_id, epoch),
        "no such id": (setting.name("nobody"), producer_id, epoch),
        "another producer": (name, NO_SUCH_PRODUCER, epoch),
        "an epoch to come": (name, producer_id, epoch + 1),
    }
    for label, identity in identities.items():
        yield f"commit for {label}", EndTxnRequest(*identity, True)
        yield f"offsets for {label}", AddOffsetsToTxnRequest(*identity, setting.name("group"))
    yield "offsets", AddOffsetsToTxnRequest(name, producer_id, epoch, setting.name("group"))
    topic = TxnOffsetCommitRequestTopic(setting.name("one"), [TxnOffsetCommitRequestPartition(0, 5, -1, "m")])
    for label, identity in identities.items():
        if label != "an empty id":
            transactional_id, *producer = identity
            request = TxnOffsetCommitRequest(transactional_id, setting.name("group"), *producer, topics=[topic])
            yield f"commit of offsets for {label}", request
    topics = [
        TxnOffsetCommitRequestTopic(setting.name(stem), [TxnOffsetCommitRequestPartition(i, 5, -1, "m") for i in indexes])
        for stem, indexes in (("one", (0,)), ("two", (1, 9)), ("none", (0,)), ("full", ()))
    ]
    yield "topics that are there or not", TxnOffsetCommitRequest(name, setting.name("group"), producer_id, epoch, topics=topics)
    yield "no group", TxnOffsetCommitRequest(name, "", producer_id, epoch, topics=[topic])
    yield "describe", DescribeTransactionsRequest([name, setting.name("nobody"), ""])
    yield "commit", EndTxnRequest(name, producer_id, epoch, True)


def fetched_offsets(setting: Setting, version: int) -> Questions:
    def ask(group: str, topics: dict[str, list[int]] | None) -> OffsetFetchRequest:
        if version < 8:
            older = None if topics is None else [OffsetFetchRequestTopic(name, indexes) for name, indexes in topics.items()]
            return OffsetFetchRequest(group, older)
        newer = None
        if topics is not None:
            newer = [
                OffsetFetchRequestTopics("", setting.ids.get(name, NO_SUCH_ID), indexes)
                if version >= 10
                else OffsetFetchRequestTopics(name, NO_UUID, indexes)
                for name, indexes in topics.items()
            ]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=newer)])

    group = setting.name("nobody")
    yield "two partitions", ask(group, {setting.name("one"): [0, 1]})
    yield "no such topic", ask(group, {setting.name("none"): [0]})
    yield "no topics", ask(group, {})
    if version >= 2:
        yield "all topics", ask(group, None)


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
    "EndTxn": transactions,
    "OffsetFetch": fetched_offsets,
    **CONFIG_QUESTIONS,
    **GROUP_QUESTIONS,
    **RECORD_QUESTIONS,
}
