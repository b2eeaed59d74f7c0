"""Progress records in a compacted topic: the last record of each stream, and of each name given to `write_once`.

A consumer group alone is not enough: a broker deletes a group's offsets seven days after the last commit
(offsets.retention.minutes), and an authorized client can delete or reset them. A progress record is written in the batch's
transaction. The record contains the ids of the input topics, which show whether a topic was deleted and created again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from ottla.client.admin.offsets import ranges
from ottla.client.cluster import BrokerConnections
from ottla.protocol.errors import Code
from ottla.protocol.markers import read_marker
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import BatchHeader, build_batch, read_records
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.cluster.batch_fetcher import fetched
from ottla.spark.cluster.client import PAUSE_S
from ottla.spark.cluster.topics import existing
from ottla.spark.errors import BrokerRefused, NotServed, PipelineError
from ottla.spark.progress.input_topics import InputTopics
from ottla.spark.progress.marks import Ends, Mark, group_of, newer, read_mark

DEFAULT_TOPIC: Final = "ottla-progress"
PARTITION: Final = 0
COMPACT: Final = "compact"
CONFIGS: Final = {
    "cleanup.policy": COMPACT,
    # Each start of a stream reads the whole partition. Compaction skips the active segment, so segments are small.
    "segment.bytes": str(1 << 20),
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Configs of a progress topic that the sink creates."""
_TOPIC = 2
_POLICY = "cleanup.policy"
_WRITTEN = (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER)
_NOT_ALLOWED = (Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED)
REQUEST_TIMEOUT_MS = 30_000


class ProgressRecord(msgspec.Struct, frozen=True):
    """The value of a Kafka record in the progress topic: progress record, input offsets, and the ids of the input topics if
    known."""

    mark: Mark
    ends: Ends = {}
    ids: dict[str, str] = {}


def key_of(transactional_id: str, frames: str | None = None) -> bytes:
    """Return a Kafka record's key: for a stream the transactional id, for frames a JSON array of the transactional id and their
    name."""
    return (transactional_id if frames is None else _frames_prefix(transactional_id) + _text(frames) + "]").encode()


def _frames_prefix(transactional_id: str) -> str:
    return f"[{_text(transactional_id)},"


def _text(name: str) -> str:
    return msgspec.json.encode(name).decode()


class _Seen(msgspec.Struct):
    """The reader's state: the next offset, the committed records by key (None for tombstones), and the records of open transactions
    by producer id."""

    position: int = 0
    committed: dict[bytes, ProgressRecord | None] = {}
    undecided: dict[int, dict[bytes, ProgressRecord | None]] = {}


class ProgressTopic:
    """Reads and writes, in the progress topic's first partition, the progress of a stream or of the frames of one name.

    ``inputs`` are the topics that the stream reads. All methods raise `PipelineError`.
    """

    def __init__(
        self,
        cluster: BrokerConnections,
        topic: str,
        transactional_id: str,
        inputs: InputTopics | None = None,
        frames: str | None = None,
    ) -> None:
        self._cluster = cluster
        self.topic = topic
        self.transactional_id = transactional_id
        self.inputs = inputs or InputTopics(cluster)
        self.frames = frames
        self._key = key_of(transactional_id, frames)
        self.last: ProgressRecord | None = None
        """The result of the last call of `read`."""
        self._seen = _Seen()

    def open(self) -> None:
        """Create the topic if it does not exist, and check that it is compacted. The next `read` begins at the topic's start."""
        self._seen = _Seen()
        if not existing(self._cluster, (self.topic,)):
            self._create()
        policy = self._policy()
        if policy is not None and policy != COMPACT:
            raise PipelineError(
                f"topic {self.topic!r} (progress.topic) has cleanup.policy={policy}, which would delete progress records. If it was"
                " created for them, set cleanup.policy=compact; otherwise give a progress.topic that the sink may create"
            )

    def _create(self) -> None:
        topic = CreatableTopic(
            name=self.topic,
            num_partitions=1,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS)
        try:
            self._cluster.ask_until_final(self._cluster.anyone, request, _code_of_creation, f"creating topic {self.topic!r}")
        except (BrokerRefused, NotServed) as refused:
            raise PipelineError(
                f"the progress topic {self.topic!r} does not exist, and cannot be created ({refused}): create it with one partition"
                " and cleanup.policy=compact, give another with progress.topic, or do without it with progress.topic=none"
            ) from None
        deadline = time.monotonic() + self._cluster.timeout_s
        while not existing(self._cluster, (self.topic,)):
            # Some brokers may not know the new topic yet.
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"the progress topic {self.topic!r} was created, but {self._cluster.bootstrap} does not have it yet"
                )
            time.sleep(PAUSE_S)

    def _policy(self) -> str | None:
        """Return the topic's cleanup policy; None if the client may not describe the topic's configs."""
        resource = DescribeConfigsResource(resource_type=_TOPIC, resource_name=self.topic, configuration_keys=[_POLICY])

        def code_of(answer: Any) -> int:
            return int(answer.results[0].error_code)

        try:
            request = DescribeConfigsRequest(resources=[resource])
            answer = self._cluster.ask_until_final(
                self._cluster.anyone, request, code_of, f"asking for the cleanup.policy of {self.topic!r}"
            )
        except BrokerRefused as refused:
            if refused.code in _NOT_ALLOWED:
                return None
            raise
        return next((config.value for config in answer.results[0].configs if config.name == _POLICY), None)

    def read(self) -> ProgressRecord | None:
        """Read the last committed record. Later calls only fetch new records."""
        committed = self._fetch_new()
        self._check_kind([key for key, record in committed.items() if record is not None])
        self.last = committed.get(self._key)
        return self.last

    def _check_kind(self, keys: Collection[bytes]) -> None:
        """Raise `PipelineError` if a stream and frames use the same transactional id, because they would fence each other."""
        prefix = _frames_prefix(self.transactional_id).encode()
        if self.frames is None and any(key.startswith(prefix) for key in keys):
            raise PipelineError(f"write_once has used {self.transactional_id!r}: give the stream another transactional.id")
        if self.frames is not None and key_of(self.transactional_id) in keys:
            raise PipelineError(f"a stream uses {self.transactional_id!r}: give write_once another transactional.id")

    def _fetch_new(self) -> dict[bytes, ProgressRecord | None]:
        """Return the last committed record of each key; None for a tombstone. The last stable offset does not limit the read,
        because open transactions of other ids must not hide records."""
        start, end = ranges(self._cluster, self.topic)[PARTITION]
        if not start <= self._seen.position <= end:
            self._seen = _Seen(position=start)
        for header, raw in fetched(self._cluster, self.topic, PARTITION, self._seen.position, end):
            self._take(header, raw)
            self._seen.position = header.next_offset
        return self._seen.committed

    def _take(self, header: BatchHeader, raw: memoryview) -> None:
        """Note a batch's records; those of a transaction are committed only at its commit marker."""
        seen = self._seen
        if header.is_control:
            marker = read_marker(raw, header)
            decided = seen.undecided.pop(header.producer_id, {})
            if marker is not None and marker.commit:
                seen.committed |= decided
            return
        into = seen.undecided.setdefault(header.producer_id, {}) if header.is_transactional else seen.committed
        for record in read_records(raw):
            into[record.key or b""] = self._parsed(record.key, record.value, header.base_offset)

    def _parsed(self, key: bytes | None, value: bytes | None, offset: int) -> ProgressRecord | None:
        """Decode a record. Returns None for a tombstone of another stream: operators write tombstones to remove retired streams."""
        if key and key != self._key and value is None:
            return None
        try:
            if key:
                return msgspec.json.decode(value or b"", type=ProgressRecord)
        except msgspec.DecodeError:
            pass
        raise PipelineError(
            f"topic {self.topic!r} (progress.topic) is used for something else: the batch at offset {offset} has a record that is"
            " not a progress record. Set progress.topic to a topic that the sink may create"
        )

    def record(self, mark: Mark, ends: Mapping[TopicPartition, int]) -> tuple[bytes, bytes]:
        """Return key and value of the Kafka record for a batch."""
        by_topic: Ends = {}
        for (topic, index), offset in sorted(ends.items()):
            by_topic.setdefault(topic, {})[str(index)] = offset
        ids = {topic: self.inputs.ids[topic] for topic in by_topic if topic != mark.at and topic in self.inputs.ids}
        return self._key, msgspec.json.encode(ProgressRecord(mark, by_topic, ids))

    def write(self, producer_id: int, epoch: int, mark: Mark, ends: Mapping[TopicPartition, int]) -> None:
        """Write a batch's record in the transaction. The sequence is 0, because tasks never write to this partition."""
        batch = build_batch(
            [self.record(mark, ends)],
            time.time_ns() // 1_000_000,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        data = [TopicProduceData(self.topic, partition_data=[PartitionProduceData(index=PARTITION, records=bytes(batch))])]
        request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=REQUEST_TIMEOUT_MS, topic_data=data)

        def code_of(answer: Any) -> int:
            code = int(answer.responses[0].partition_responses[0].error_code)
            return 0 if code in _WRITTEN else code

        where = f"writing progress to {self.topic!r}"
        self._cluster.ask_until_final(lambda: self._cluster.leader(self.topic, PARTITION), request, code_of, where)


def last_mark(
    cluster: BrokerConnections, transactional_id: str, log: ProgressTopic | None, *, is_stable: bool = True
) -> Mark | None:
    """Return the newer of the progress records in ``log``, if given, and in the group. Raises `PipelineError`.

    Old versions of ottla had no progress topic. A group has the progress record of only one name of frames.
    """
    in_group = read_mark(cluster, group_of(transactional_id), is_stable=is_stable)
    if log is None:
        return in_group
    kept = log.read()
    is_other = log.frames is not None and in_group is not None and in_group.query != log.frames
    return newer((None if kept is None else kept.mark, None if is_other else in_group))


def _code_of_creation(answer: Any) -> int:
    code = int(answer.topics[0].error_code)
    return 0 if code == Code.TOPIC_ALREADY_EXISTS else code
