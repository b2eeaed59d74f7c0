"""Marks that outlive the offsets of a group: a compacted topic has the last one of each transactional id.

A broker deletes the offsets of a group seven days after the last commit (offsets.retention.minutes), and anybody who may can delete
or reset them. What is in this topic stays until it is deleted itself. It is written in the batch's own transaction.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ottla.protocol.errors import Code
from ottla.protocol.markers import read_marker
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch, read_records
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.errors import BrokerRefused, PipelineError
from ottla.spark.fetching import fetched
from ottla.spark.marks import Ends, Mark, group_of, newer, read_mark
from ottla.spark.wire import PAUSE_S, ClusterClient

PARTITION: Final = 0
CONFIGS: Final = {
    "cleanup.policy": "compact",
    # Compaction leaves the newest segment alone: it is to be a small one, for each start reads all that is there.
    "segment.bytes": str(1 << 20),
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Of the topic, where the sink makes it."""
_TOPIC = 2
_POLICY = "cleanup.policy"
_THERE = (Code.NONE, Code.TOPIC_ALREADY_EXISTS)
_WRITTEN = (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER)
REQUEST_TIMEOUT_MS = 30_000


class MarkEntry(msgspec.Struct, frozen=True):
    """What a record holds: the mark, and how far its batch has read."""

    mark: Mark
    ends: Ends = {}


class MarkLog:
    """The topic of that name. Its first partition has the marks of all ids. Raises `PipelineError`."""

    def __init__(self, cluster: ClusterClient, topic: str) -> None:
        self._cluster = cluster
        self.topic = topic

    def open(self) -> None:
        """Make the topic where it is not there, and see that it is compacted."""
        try:
            self._cluster.ask(self._cluster.anyone, self._creation(), _code_of_creation, f"making topic {self.topic!r}")
        except BrokerRefused as refused:
            if refused.code not in (Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED):
                raise
        deadline = time.monotonic() + self._cluster.timeout_s
        while True:
            try:
                self._cluster.leaders(self.topic)
                break
            except PipelineError:
                # A topic that was just made takes a moment to be known everywhere.
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)
        policy = self._policy()
        if policy is not None and "compact" not in policy.split(","):
            raise PipelineError(
                f"topic {self.topic!r} is to keep marks (mark.log.topic), and its cleanup.policy is {policy!r}: they would go with"
                " its retention. Set it to compact, or name another topic"
            )

    def _creation(self) -> CreateTopicsRequest:
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()]
        topic = CreatableTopic(name=self.topic, num_partitions=1, replication_factor=-1, configs=configs)
        return CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS)

    def _policy(self) -> str | None:
        """None where this client may not ask."""
        resource = DescribeConfigsResource(resource_type=_TOPIC, resource_name=self.topic, configuration_keys=[_POLICY])

        def code_of(answer: Any) -> int:
            return int(answer.results[0].error_code)

        try:
            request = DescribeConfigsRequest(resources=[resource])
            answer = self._cluster.ask(self._cluster.anyone, request, code_of, f"asking how {self.topic!r} is kept")
        except BrokerRefused as refused:
            if refused.code == Code.TOPIC_AUTHORIZATION_FAILED:
                return None
            raise
        return next((config.value for config in answer.results[0].configs if config.name == _POLICY), None)

    def read(self, transactional_id: str) -> MarkEntry | None:
        """The last mark that was committed: all of the partition is read, other ids' open transactions notwithstanding."""
        key = transactional_id.encode()
        undecided: dict[int, MarkEntry] = {}
        last: MarkEntry | None = None
        start, end = self._cluster.ranges(self.topic)[PARTITION]
        for header, raw in fetched(self._cluster, self.topic, PARTITION, start, end):
            if header.is_control:
                marker = read_marker(raw, header)
                decided = undecided.pop(header.producer_id, None)
                if marker is not None and marker.commit and decided is not None:
                    last = decided
                continue
            for record in read_records(raw):
                if record.key == key:
                    kept = self._parsed(record.value)
                    if header.is_transactional:
                        undecided[header.producer_id] = kept
                    else:
                        last = kept
        return last

    def _parsed(self, value: bytes | None) -> MarkEntry:
        try:
            return msgspec.json.decode(value or b"", type=MarkEntry)
        except msgspec.DecodeError:
            raise PipelineError(
                f"topic {self.topic!r} holds a record that is no mark of a stream's; give mark.log.topic another"
            ) from None

    def record(self, transactional_id: str, mark: Mark, ends: Mapping[TopicPartition, int]) -> tuple[bytes, bytes]:
        """Key and value."""
        by_topic: Ends = {}
        for (topic, index), offset in sorted(ends.items()):
            by_topic.setdefault(topic, {})[str(index)] = offset
        return transactional_id.encode(), msgspec.json.encode(MarkEntry(mark, by_topic))

    def write(self, transactional_id: str, producer_id: int, epoch: int, mark: Mark, ends: Mapping[TopicPartition, int]) -> None:
        """As part of a transaction; nobody else writes to this partition in it."""
        record = self.record(transactional_id, mark, ends)
        batch = build_batch(
            [record],
            time.time_ns() // 1_000_000,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        data = [TopicProduceData(self.topic, partition_data=[PartitionProduceData(index=PARTITION, records=bytes(batch))])]
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=REQUEST_TIMEOUT_MS, topic_data=data)

        def code_of(answer: Any) -> int:
            code = int(answer.responses[0].partition_responses[0].error_code)
            return 0 if code in _WRITTEN else code

        where = f"writing the mark to {self.topic!r}"
        self._cluster.ask(lambda: self._cluster.leaders(self.topic)[PARTITION], request, code_of, where)


def last_mark(cluster: ClusterClient, transactional_id: str, log: MarkLog | None, *, is_stable: bool = True) -> Mark | None:
    """What was committed last, as the group has it, and ``log`` where there is one. Raises `PipelineError`."""
    in_group = read_mark(cluster, group_of(transactional_id), is_stable=is_stable)
    kept = None if log is None else log.read(transactional_id)
    return newer((in_group, None if kept is None else kept.mark))


def _code_of_creation(answer: Any) -> int:
    code = int(answer.topics[0].error_code)
    return 0 if code in _THERE else code
