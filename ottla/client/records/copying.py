"""Copies a topic to another cluster, each committed record exactly once, with its partition, key, headers and timestamp.

Each transaction at the target contains the copied records and, as committed offsets of the group `TopicCopy.group`, the next source
offsets. So a killed copy continues after its last committed transaction, and aborts the open one. Two copies at the same time do
not duplicate records either, because both use the same transactional id, and the newer copy fences the older one.

The offsets are committed under the target's topic, so that they are deleted with the topic. Their metadata has the ids of both
topics, by which a copy notices that a topic was deleted and created again. `TopicCopy.prepare` commits the first positions of all
partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Final

from ottla.addresses import joined_address
from ottla.client.admin.offsets import ranges
from ottla.client.admin.topics import ConfigKind, create, get_configs, wait_for_leaders
from ottla.client.cluster import GROUP, TRANSACTION, BrokerConnections
from ottla.client.errors import ClientError, KafkaAnswered, UnknownTopic, check
from ottla.client.real_time import monotonic_s, now_ms
from ottla.client.records.producing import BATCH_BYTES, BATCH_RECORDS
from ottla.client.records.reading import FETCH_WAIT_MS, FRUITLESS_ROUNDS, classified, fetch, stream
from ottla.client.records.record import NewRecord, decoded, encode_batch, encoded_size_bytes
from ottla.client.records.transactional_producer import COMMITTING_OFFSETS, TransactionalProducer
from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.messages.metadata import MetadataResponseTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import TIMESTAMP_TYPE_BIT, BatchHeader, crc_is_valid

MIN_WHOLE_BYTES: Final = 16 << 10
MIN_WHOLE_RECORDS: Final = 200
"""A batch of at least `MIN_WHOLE_BYTES` or this number of records is copied as it is, with its compression. Smaller batches are
joined, because each batch takes a request."""
TOPICS_CHECK_S: Final = 10.0
"""Interval, in seconds, at which a copy without end looks for new partitions of the source and checks that both topics exist."""
TRANSACTION_TIMEOUT_MS: Final = 120_000
"""Time, in ms, after which the coordinator aborts an open transaction. A copy's transactions take much less time: they contain at
most 16 MiB per broker."""
TIMESTAMP_TYPE: Final = "message.timestamp.type"
OF_THE_CLUSTER: Final = frozenset(
    {TIMESTAMP_TYPE, "min.insync.replicas", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)
"""Configs that are not copied to a new target topic: those that depend on the cluster's brokers, and the timestamp type, which is
CreateTime to keep timestamps."""

_NOT_WRITTEN: Final = frozenset({Code.KAFKA_STORAGE_ERROR, Code.NOT_COORDINATOR})
"""Error codes that, if retries do not help, mean that a broker cannot write to its disk. A coordinator that cannot write its log
returns NOT_COORDINATOR (TransactionStateManager.appendTransactionToLog, CoordinatorOperationExceptionHelper), although it is still
the coordinator."""
_DELETED: Final = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID})


@dataclass(slots=True, frozen=True)
class Skipped:
    """Source offsets, from ``first`` to before ``end``, whose records were deleted before they were copied."""

    partition: int
    first: int
    end: int


@dataclass(slots=True, frozen=True)
class _Fetched:
    """One partition's data of a Fetch response: the batches to write, their number of records, and the next offset to fetch."""

    batches: list[Buffer]
    records: int
    next_offset: int


class TopicCopy:
    """A copy of one topic. The constructor only stores the arguments; `prepare` opens connections.

    With ``is_new`` the copy begins at the log start even if an earlier copy committed progress or the target has records.
    """

    def __init__(
        self, source: BrokerConnections, target: BrokerConnections, topic: str, target_topic: str, *, is_new: bool = False
    ) -> None:
        self.source, self.target = source, target
        self.topic, self.target_topic = topic, target_topic
        self._is_new = is_new
        self._topic_ids = ["", ""]
        """Ids of the source's and the target's topic."""
        self._producer: TransactionalProducer | None = None
        self.group = ""
        """The transactional id, and the name of the group whose committed offsets are the copy's progress."""
        self.is_created = False
        self.skipped: list[Skipped] = []
        self.positions: dict[int, int] = {}
        """Next source offset to copy, by partition. Records before this offset are committed at the target."""
        self.ends: dict[int, int] = {}
        """Last stable offsets of the source when the copy was prepared, by partition."""
        self.held = 0
        """Number of source offsets that open transactions kept above the last stable offset when the copy was prepared."""
        self.copied: dict[int, int] = {}
        """Number of records that this process has copied, by partition."""

    def prepare(self) -> None:
        """Check both topics, create the target's topic if it does not exist, fence other copies, and find the positions to continue
        from. May be called again between two transactions.

        Raises `ClientError`, and `KafkaAnswered` if a broker refuses a request.
        """
        source_id, target_id = self.source.cluster_id(), self.target.cluster_id()
        if source_id == target_id and self.topic == self.target_topic:
            raise ClientError(f"source and target are the same topic {self.topic!r} of one cluster; give another name with --as")
        found = _described(self.source, self.topic)
        self._prepare_target(len(found.partitions))
        self._topic_ids = [found.topic_id.hex(), _described(self.target, self.target_topic).topic_id.hex()]
        self.group = f"ottla-copy/{source_id}/{self.topic}/{self.target_topic}"
        try:
            self._producer = TransactionalProducer(self.target, self.group, TRANSACTION_TIMEOUT_MS)
        except KafkaAnswered as refused:
            raise self._target_error(refused) from None
        self._find_progress()
        self._is_new = False

    def _prepare_target(self, partitions: int) -> None:
        try:
            there = len(self.target.partitions(self.target_topic))
        except UnknownTopic:
            configs = get_configs(self.source, ConfigKind.TOPIC, self.topic)
            own = {c.name: c.value for c in configs if c.own and c.value is not None and c.name not in OF_THE_CLUSTER}
            try:
                # Set CreateTime, because a broker with a manual clock replaces timestamps by default.
                create(self.target, self.target_topic, partitions, {**own, TIMESTAMP_TYPE: "CreateTime"})
                self.is_created = True
            except KafkaAnswered as refused:
                # A killed copy may have just created the topic, whose leaders may not be elected yet.
                if refused.code != Code.TOPIC_ALREADY_EXISTS:
                    raise
                wait_for_leaders(self.target, self.target_topic)
            there = len(self.target.partitions(self.target_topic))
        if there < partitions:
            raise ClientError(
                f"topic {self.target_topic!r} at {self.target.bootstrap} has {there} of {partitions} partitions; add them with"
                f" ottla topic alter --partitions {partitions}"
            )
        types = {c.name: c.value for c in get_configs(self.target, ConfigKind.TOPIC, self.target_topic)}
        if types.get(TIMESTAMP_TYPE) == "LogAppendTime":
            raise ClientError(
                f"topic {self.target_topic!r} at {self.target.bootstrap} replaces timestamps, which a copy keeps; set"
                f" {TIMESTAMP_TYPE}=CreateTime: ottla topic alter {quote(self.target_topic)} --config {TIMESTAMP_TYPE}=CreateTime"
                f" --bootstrap {quote(self.target.bootstrap)}"
            )

    def _find_progress(self) -> None:
        limits = ranges(self.source, self.topic, committed=True)
        high_watermarks = {index: end for index, (_, end) in ranges(self.source, self.topic).items()}
        self.held = sum(max(0, high_watermarks[index] - end) for index, (_, end) in limits.items() if index in high_watermarks)
        known = {} if self._is_new else _stable_offsets(self.target, self.group, self.target_topic)
        # Ignore committed offsets of a deleted target topic. Their metadata has the old topic's id.
        progress = {i: (offset, ids.split()) for i, (offset, ids) in known.items() if ids.split()[-1:] == self._topic_ids[-1:]}
        if any(ids != self._topic_ids for _, ids in progress.values()):
            raise ClientError(f"topic {self.topic!r} was created again after it was copied; give --new to copy the new topic, too")
        if not progress and not self._is_new and not self.is_created and self._has_records():
            raise ClientError(
                f"topic {self.target_topic!r} at {self.target.bootstrap} has records, but no progress of this copy; give --new to"
                " copy all records nevertheless"
            )
        for index, (start, end) in limits.items():
            position = progress[index][0] if index in progress else start
            if position > max(end, high_watermarks.get(index, end)):
                raise ClientError(
                    f"{self.topic}-{index} was copied to offset {position}, but ends at {end}: records were lost or replaced; give"
                    " --new to copy its current records"
                )
            if position < start:
                self.skipped.append(Skipped(partition=index, first=position, end=start))
            self.positions[index], self.ends[index] = max(position, start), end
            self.copied.setdefault(index, 0)
        if any(index not in progress for index in limits):
            self._commit({index: _Fetched(batches=[], records=0, next_offset=at) for index, at in self.positions.items()})

    def _has_records(self) -> bool:
        return next(stream(self.target, self.target_topic), None) is not None

    def rounds(self, *, follow: bool = False) -> Iterator[int]:
        """Copy until the last stable offsets that `prepare` found, or without end if ``follow`` is true. After each commit, yields
        the number of source offsets that the transaction covers.

        Raises `FencedProducer` if another copy of the topic has started, and `ClientError`.
        """
        fruitless = 0
        looked_s = monotonic_s()
        while wanted := {i: at for i, at in self.positions.items() if follow or at < self.ends[i]}:
            try:
                answered = fetch(self.source, self.topic, wanted, committed=True, max_wait_ms=FETCH_WAIT_MS)
            except KafkaAnswered as refused:
                raise self._source_error(refused) from None
            fetched = {index: self._fetched(data) for index, data in answered.items()}
            fetched = {index: one for index, one in fetched.items() if one.next_offset > self.positions[index]}
            if fetched:
                covered = sum(one.next_offset - self.positions[index] for index, one in fetched.items())
                self._commit(fetched)
                yield covered
            fruitless = 0 if fetched or follow else fruitless + 1
            if follow and monotonic_s() >= looked_s + TOPICS_CHECK_S:
                looked_s = monotonic_s()
                self._check_topics()
            if fruitless == FRUITLESS_ROUNDS:
                raise ClientError(f"{self.source.bootstrap} returned no records of topic {self.topic!r}, although it has more")

    def _check_topics(self) -> None:
        """Prepare the copy again if the source has new partitions. Raises `ClientError` if a topic was deleted, or was created
        again."""
        try:
            target = _described(self.target, self.target_topic)
        except KafkaAnswered as refused:
            raise self._target_error(refused) from None
        if target.topic_id.hex() != self._topic_ids[1]:
            raise self._target_deleted()
        try:
            source = _described(self.source, self.topic)
        except KafkaAnswered as refused:
            raise self._source_error(refused) from None
        if len(source.partitions) > len(self.positions) or source.topic_id.hex() != self._topic_ids[0]:
            self.prepare()

    def _source_error(self, refused: KafkaAnswered) -> ClientError:
        if refused.code not in _DELETED:
            return refused
        return ClientError(
            f"topic {self.topic!r} at {self.source.bootstrap} was deleted during the copy; the records copied before are in"
            f" {self.target_topic!r} at {self.target.bootstrap}"
        )

    def _target_error(self, refused: KafkaAnswered) -> ClientError:
        if refused.code in _DELETED:
            return self._target_deleted()
        if refused.code not in _NOT_WRITTEN:
            return refused
        return ClientError(
            f"{refused}: {self._failed_broker(refused.what)} cannot write to its disk, which may be full; free space there, and run"
            " the same command again to continue the copy"
        )

    def _target_deleted(self) -> ClientError:
        return ClientError(
            f"the target topic {self.target_topic!r} at {self.target.bootstrap} was deleted during the copy; the same command"
            " creates it and copies all records again"
        )

    def _failed_broker(self, what: str) -> str:
        index = next((index for index in self.positions if what == f"writing to {self.target_topic}-{index}"), None)
        try:
            if index is None:
                kind = GROUP if what.startswith(COMMITTING_OFFSETS) else TRANSACTION
                return f"broker {joined_address(self.target.coordinator(kind, self.group).address)}"
            return f"broker {joined_address(self.target.leaders(self.target_topic, [index])[index].address)}"
        except (ClientError, OSError):
            return f"a broker of {self.target.bootstrap}"

    def _commit(self, fetched: dict[int, _Fetched]) -> None:
        producer = self._producer
        assert producer is not None, "prepare was not called"
        ends = {index: one.next_offset for index, one in fetched.items()}
        try:
            with producer.transaction(self.target):
                # A Produce request may have only one batch per partition.
                for at in range(max(len(one.batches) for one in fetched.values())):
                    batches = {index: one.batches[at] for index, one in fetched.items() if at < len(one.batches)}
                    producer.write(self.target, self.target_topic, batches)
                offsets = {(self.target_topic, index): end for index, end in ends.items()}
                producer.commit_offsets(self.target, self.group, offsets, " ".join(self._topic_ids))
        except KafkaAnswered as refused:
            raise self._target_error(refused) from None
        self.positions.update(ends)
        for index, one in fetched.items():
            self.copied[index] += one.records

    def _fetched(self, data: PartitionData) -> _Fetched:
        """Return the committed batches of a response. Small batches, and batches with missing offsets, are joined into new
        batches."""
        index = data.partition_index
        position = self.positions[index]
        written: list[Buffer] = []
        joined = _Joined(written)
        records = 0
        for batch, header, is_committed in classified(self.topic, data, "committed"):
            if header.next_offset <= position:
                continue
            if is_committed and not header.is_control:
                if _goes_whole(batch, header, position):
                    joined.finish()
                    written.append(batch)
                    records += header.record_count
                else:
                    for record in decoded(self.topic, index, batch, header):
                        if record.offset >= position:
                            joined.add(NewRecord(record.value, record.key, record.headers, index, record.timestamp_ms))
                            records += 1
            position = header.next_offset
        joined.finish()
        return _Fetched(batches=written, records=records, next_offset=position)


def _described(brokers: BrokerConnections, topic: str) -> MetadataResponseTopic:
    return brokers.topic_of(brokers.until_final(f"looking for topic {topic!r}", lambda: brokers.metadata([topic])), topic)


class _Joined:
    """Joins records into batches, which it appends to ``written``."""

    def __init__(self, written: list[Buffer]) -> None:
        self._written = written
        self._records: list[NewRecord] = []
        self._size_bytes = 0

    def add(self, record: NewRecord) -> None:
        self._records.append(record)
        self._size_bytes += encoded_size_bytes(record)
        if self._size_bytes >= BATCH_BYTES or len(self._records) >= BATCH_RECORDS:
            self.finish()

    def finish(self) -> None:
        if self._records:
            self._written.append(encode_batch(self._records, now_ms()))
            self._records, self._size_bytes = [], 0


def _goes_whole(batch: Buffer, header: BatchHeader, position: int) -> bool:
    """Whether a batch can be written as it is: it is large enough, its offsets are consecutive, and its timestamps are the
    producer's."""
    return (
        (header.size_bytes >= MIN_WHOLE_BYTES or header.record_count >= MIN_WHOLE_RECORDS)
        and header.magic == 2
        and header.base_offset >= position
        and header.record_count == header.last_offset_delta + 1
        and not header.attributes & TIMESTAMP_TYPE_BIT
        and crc_is_valid(batch, header)
    )


def _stable_offsets(brokers: BrokerConnections, group: str, topic: str) -> dict[int, tuple[int, str]]:
    """Return a group's committed offset and metadata for each partition of a topic. Waits while open transactions have newer
    offsets (KIP-447)."""
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=True
    )
    what = f"asking for the offsets of group {group!r}"

    def attempt() -> dict[int, tuple[int, str]]:
        answer = brokers.ask(brokers.coordinator(GROUP, group), request)
        # Before version 8 an OffsetFetch response has one group only (KIP-709).
        answered = answer.groups[0] if answer.groups else answer
        check(what, answered.error_code)
        offsets: dict[int, tuple[int, str]] = {}
        for partition in (p for t in answered.topics if t.name == topic for p in t.partitions):
            check(what, partition.error_code)
            if partition.committed_offset >= 0:
                offsets[partition.partition_index] = partition.committed_offset, partition.metadata or ""
        return offsets

    return brokers.until_final(what, attempt)
