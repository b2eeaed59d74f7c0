"""Progress records in the consumer group of a transactional id.

In the batch's transaction, the sink commits the batch's input offsets to this group, and the progress record as metadata of an
offset. Tools therefore show the stream's lag. Each stream has its own group, so pending offsets of other streams do not block
reading the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from ottla.client.cluster import GROUP, BrokerConnections
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.errors import PipelineError

NO_BATCH: Final = -1
"""Batch number of a progress record that claims a transactional id before the stream's first commit (`id_claim`)."""


class Mark(msgspec.Struct, frozen=True):
    """A progress record of the last committed batch: ``query`` is the id of the stream, ``batch`` the number of the batch.

    ``turn`` counts the checkpoints that the stream has lost: with each new checkpoint batch numbers begin at 0 again. ``input`` is
    `checkpoint.InputEnds.text`, empty if unknown. ``content`` is a digest of the names of input files.

    ``at`` is the topic whose offset has the record as metadata, empty for an input topic. ``offsets`` is the number of input
    offsets in the commit, -1 if unknown.
    """

    query: str
    batch: int
    run: str
    input: str = ""
    turn: int = 0
    content: str = ""
    at: str = ""
    offsets: int = -1

    def input_offsets(self) -> dict[TopicPartition, int]:
        """Parse the offsets of Kafka topics in ``input``; empty if ``input`` is a digest."""
        try:
            sources = msgspec.json.decode(self.input or b"[]")
        except msgspec.DecodeError:
            return {}
        return dict(offset for source in (sources if isinstance(sources, list) else [sources]) for offset in offsets_of(source))


Ends = dict[str, dict[str, int]]
"""Offsets by topic and partition, in Spark's JSON form."""


def offsets_of(source: Any) -> Iterator[tuple[TopicPartition, int]]:
    """Parse the offsets of a source in the Kafka connector's form ``{"orders": {"0": 12}}``. Other sources yield nothing."""
    if not isinstance(source, dict):
        return
    for topic, partitions in source.items():
        if isinstance(partitions, dict):
            for index, offset in partitions.items():
                if index.isdecimal() and isinstance(offset, int) and offset >= 0:
                    yield (topic, int(index)), offset


def group_of(transactional_id: str) -> str:
    return f"ottla-pipeline.{transactional_id}"


def commit_of(mark: Mark, ends: Mapping[TopicPartition, int]) -> dict[str, dict[int, tuple[int, str]]]:
    """Return the offsets and metadata to commit. The progress record is the metadata of the offset of ``mark.at``, or, if
    ``mark.at`` is empty, of the first partition in ``ends``."""
    text = msgspec.json.encode(mark).decode()
    first = (mark.at, 0) if mark.at else min(ends)
    commit: dict[str, dict[int, tuple[int, str]]] = {}
    for (topic, index), offset in sorted(ends.items()):
        commit.setdefault(topic, {})[index] = (offset, text if (topic, index) == first else "")
    return commit


def parse_mark(text: str, group: str) -> Mark:
    """Parse the progress record in an offset's metadata. Raises `PipelineError`."""
    try:
        return msgspec.json.decode(text, type=Mark)
    except msgspec.DecodeError:
        raise PipelineError(
            f"group {group!r} has offsets that no pipeline has committed, or they were reset; use another transactional id"
        ) from None


def newer(marks: Iterable[Mark | None]) -> Mark | None:
    """Return the newest progress record; None if all are None."""
    return max((mark for mark in marks if mark is not None), key=lambda mark: (mark.turn, mark.batch), default=None)


def newest_mark(metadata: list[str], group: str) -> Mark | None:
    """Return the newest progress record in the metadata of a group's offsets. Offsets of topics that the stream no longer reads may
    have older records. Raises `PipelineError` if there are offsets but no record."""
    marks = [parse_mark(text, group) for text in metadata if text]
    if metadata and not marks:
        raise PipelineError(
            f"group {group!r} has offsets that no pipeline has committed, or they were reset; use another transactional id"
        )
    return newer(marks)


def first_error(topics: Iterable[Any]) -> int:
    """Return the error code of the first partition with an error; 0 without an error."""
    codes = (partition.error_code for topic in topics for partition in topic.partitions)
    return next((int(code) for code in codes if code), 0)


def read_mark(cluster: BrokerConnections, group: str, *, is_stable: bool = True) -> Mark | None:
    """Read a group's newest progress record; None if the group has no offsets. With ``is_stable`` the call waits until no offset is
    pending. Raises `PipelineError`."""
    in_group = read_committed(cluster, group, is_stable=is_stable)
    return None if in_group is None else in_group.mark


class CommittedMark(msgspec.Struct, frozen=True):
    """The newest progress record of a group, the topic whose offset has the record as metadata, and all offsets."""

    mark: Mark
    topic: str
    ends: Ends


def read_committed(cluster: BrokerConnections, group: str, *, is_stable: bool = True) -> CommittedMark | None:
    """Read a group's newest progress record with topic and offsets; see `read_mark`."""
    # Remove the zero byte that confluent-kafka commits at the end of metadata.
    fetched = [(topic, p, (p.metadata or "").rstrip("\0")) for topic, p in _fetched(cluster, group, is_stable=is_stable)]
    mark = newest_mark([metadata for _, _, metadata in fetched], group)
    if mark is None:
        return None
    ends: Ends = {}
    for topic, partition, _ in fetched:
        ends.setdefault(topic, {})[str(partition.partition_index)] = partition.committed_offset
    return CommittedMark(mark, next(topic for topic, _, text in fetched if text and parse_mark(text, group) == mark), ends)


def read_ends(cluster: BrokerConnections, group: str) -> Ends:
    """Read the offsets of a group. Raises `PipelineError`."""
    ends: Ends = {}
    for topic, partition in _fetched(cluster, group, is_stable=True):
        ends.setdefault(topic, {})[str(partition.partition_index)] = partition.committed_offset
    return ends


def commit_ends(cluster: BrokerConnections, group: str, ends: Ends) -> None:
    """Commit a group's offsets without metadata, outside of transactions. Raises `PipelineError`."""
    commit = {topic: {int(index): (offset, "") for index, offset in partitions.items()} for topic, partitions in ends.items()}
    commit_plainly(cluster, group, commit, f"committing to group {group!r}")


def commit_plainly(cluster: BrokerConnections, group: str, commit: Mapping[str, Mapping[int, tuple[int, str]]], what: str) -> None:
    """Commit offsets and metadata of a group without members, outside of transactions. Raises `PipelineError`."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
                for index, (offset, metadata) in partitions.items()
            ],
        )
        for topic, partitions in commit.items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    cluster.ask_until_final(lambda: cluster.coordinator(GROUP, group), request, lambda a: first_error(a.topics), what)


def _fetched(cluster: BrokerConnections, group: str, *, is_stable: bool) -> list[tuple[str, Any]]:
    """Return the partitions that have a committed offset, each with its topic."""
    # Brokers before 3.0 accept one group per request (KIP-709). The request's version determines whether ``group_id`` or ``groups``
    # is sent.
    groups = [OffsetFetchRequestGroup(group, topics=None)]
    request = OffsetFetchRequest(group_id=group, topics=None, groups=groups, require_stable=is_stable)

    def said(answer: Any) -> Any:
        return answer.groups[0] if answer.groups else answer

    def code_of(answer: Any) -> int:
        return int(said(answer).error_code) or first_error(said(answer).topics)

    answer = cluster.ask_until_final(
        lambda: cluster.coordinator(GROUP, group), request, code_of, "reading the last committed batch"
    )
    return [(topic.name, p) for topic in said(answer).topics for p in topic.partitions if p.committed_offset >= 0]
