"""What is committed with a batch, in its transaction: which batch it was, and up to which offsets it has read.

Both are offsets of a group of the transactional id's own. So tools show how far behind a pipeline is, and no other pipeline's open
transaction hides its mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.errors import PipelineError
from ottla.spark.wire import GROUP, ClusterClient

NO_BATCH: Final = -1
"""Of a mark that claims a transactional id before anything is committed (`claiming`)."""


class Mark(msgspec.Struct, frozen=True):
    """The last batch that was committed, as it stands in an offset's metadata. ``query`` is the stream's own id.

    ``input`` is where the batch's input ended, as `checkpoint.InputEnds.text` has it; empty where nobody has said so. ``turn``
    counts the checkpoints that were lost before this stream's: batches begin at 0 in each. ``content`` is a digest of what a source
    has read whose offsets do not say it, as names of files. ``at`` is the topic that the mark stands at where that is none of the
    input's, and ``offsets`` how many of the input's stand beside it, -1 where nobody has said so.
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
        """As far as ``input`` says them: of topics of Kafka's, and not where a digest stands for them."""
        try:
            sources = msgspec.json.decode(self.input or b"[]")
        except msgspec.DecodeError:
            return {}
        return dict(offset for source in (sources if isinstance(sources, list) else [sources]) for offset in offsets_of(source))


Ends = dict[str, dict[str, int]]
"""Offsets by topic and partition, as Spark writes them."""


def offsets_of(source: Any) -> Iterator[tuple[TopicPartition, int]]:
    """``{"orders": {"0": 12}}`` is what the connector for Kafka writes; other sources count otherwise."""
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
    """Offset and metadata by topic and partition. The mark is the metadata of ``mark.at``, else of the first; there is one."""
    text = msgspec.json.encode(mark).decode()
    first = (mark.at, 0) if mark.at else min(ends)
    commit: dict[str, dict[int, tuple[int, str]]] = {}
    for (topic, index), offset in sorted(ends.items()):
        commit.setdefault(topic, {})[index] = (offset, text if (topic, index) == first else "")
    return commit


def parse_mark(text: str, group: str) -> Mark:
    """Raises `PipelineError`."""
    try:
        return msgspec.json.decode(text, type=Mark)
    except msgspec.DecodeError:
        raise PipelineError(
            f"group {group!r} holds offsets of no pipeline, or they were reset; take another transactional id"
        ) from None


def newer(marks: Iterable[Mark | None]) -> Mark | None:
    """The newest of those that there are."""
    return max((mark for mark in marks if mark is not None), key=lambda mark: (mark.turn, mark.batch), default=None)


def newest_mark(metadata: list[str], group: str) -> Mark | None:
    """The mark of the newest batch among all that the group's offsets say: input that was read first once may be read no more.

    Raises `PipelineError` for offsets none of which says anything of a batch.
    """
    marks = [parse_mark(text, group) for text in metadata if text]
    if metadata and not marks:
        raise PipelineError(f"group {group!r} holds offsets of no pipeline, or they were reset; take another transactional id")
    return newer(marks)


def first_error(topics: Iterable[Any]) -> int:
    """The code of the first partition that was refused, 0 where none was."""
    codes = (partition.error_code for topic in topics for partition in topic.partitions)
    return next((int(code) for code in codes if code), 0)


def read_mark(cluster: ClusterClient, group: str, *, is_stable: bool = True) -> Mark | None:
    """What was committed last; with ``is_stable`` once no commit is under way any more. Raises `PipelineError`."""
    standing = read_standing(cluster, group, is_stable=is_stable)
    return None if standing is None else standing.mark


class Standing(msgspec.Struct, frozen=True):
    """The newest mark of a group, the topic with whose offsets it stands, and all offsets."""

    mark: Mark
    topic: str
    ends: Ends


def read_standing(cluster: ClusterClient, group: str, *, is_stable: bool = True) -> Standing | None:
    """See `read_mark`; None where there is none. Raises `PipelineError`."""
    # confluent-kafka commits the end of a C string with it.
    fetched = [(topic, p, (p.metadata or "").rstrip("\0")) for topic, p in _fetched(cluster, group, is_stable=is_stable)]
    mark = newest_mark([metadata for _, _, metadata in fetched], group)
    if mark is None:
        return None
    ends: Ends = {}
    for topic, partition, _ in fetched:
        ends.setdefault(topic, {})[str(partition.partition_index)] = partition.committed_offset
    return Standing(mark, next(topic for topic, _, text in fetched if text and parse_mark(text, group) == mark), ends)


def read_ends(cluster: ClusterClient, group: str) -> Ends:
    """Raises `PipelineError`."""
    ends: Ends = {}
    for topic, partition in _fetched(cluster, group, is_stable=True):
        ends.setdefault(topic, {})[str(partition.partition_index)] = partition.committed_offset
    return ends


def commit_ends(cluster: ClusterClient, group: str, ends: Ends) -> None:
    """See `commit_plainly`."""
    commit = {topic: {int(index): (offset, "") for index, offset in partitions.items()} for topic, partitions in ends.items()}
    commit_plainly(cluster, group, commit, f"committing to group {group!r}")


def commit_plainly(cluster: ClusterClient, group: str, commit: Mapping[str, Mapping[int, tuple[int, str]]], what: str) -> None:
    """Offsets and metadata of a group that nobody is a member of, in no transaction. Raises `PipelineError`."""
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
    cluster.ask(lambda: cluster.coordinator(GROUP, group), request, lambda a: first_error(a.topics), what)


def _fetched(cluster: ClusterClient, group: str, *, is_stable: bool) -> list[tuple[str, Any]]:
    """Topics and partitions that have an offset. Raises `PipelineError`."""
    # Brokers before 3.0 are asked for one group at a time (KIP-709); which of both is sent is a matter of the version.
    groups = [OffsetFetchRequestGroup(group, topics=None)]
    request = OffsetFetchRequest(group_id=group, topics=None, groups=groups, require_stable=is_stable)

    def said(answer: Any) -> Any:
        return answer.groups[0] if answer.groups else answer

    def code_of(answer: Any) -> int:
        return int(said(answer).error_code) or first_error(said(answer).topics)

    answer = cluster.ask(lambda: cluster.coordinator(GROUP, group), request, code_of, "reading the last committed batch")
    return [(topic.name, p) for topic in said(answer).topics for p in topic.partitions if p.committed_offset >= 0]
