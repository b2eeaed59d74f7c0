"""Chooses the topic whose committed offset has the progress record as metadata.

If the input topics are on the cluster to which the stream writes, their offsets are committed, so that tools show the stream's lag,
and the offset of the first partition has the record. If the input is files or on another cluster, another topic is chosen once, for
all batches.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ottla.client.cluster import BrokerConnections
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.cluster.topics import existing
from ottla.spark.errors import PipelineError
from ottla.spark.progress.marks import CommittedMark
from ottla.spark.sink.options import SinkOptions


class MarkPlace:
    """Chooses the topic for one transactional id. ``choose`` must be called first, and again when the stream starts again. Raises
    `PipelineError`."""

    def __init__(self, cluster: BrokerConnections, options: SinkOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._at = ""
        self._partitions: frozenset[TopicPartition] = frozenset()
        """The input partitions for which ``_are_there`` is valid."""
        self._are_there = False
        """Whether all partitions in ``_partitions`` exist on the cluster."""

    def choose(self, ends: InputEnds, in_group: CommittedMark | None) -> None:
        """Use the topic of the option ``mark.topic``, or else the topic whose offset has ``in_group``, the group's last progress
        record."""
        self._partitions = frozenset()
        named = self._options.mark_topic
        if named is not None:
            self._check(named)
            self._at = named
            return
        kept = _kept(in_group, ends)
        self._at = kept if kept and existing(self._cluster, (kept,)) else ""

    def of(self, ends: InputEnds, number: int) -> InputEnds:
        """Return ``ends`` with the offsets to commit. For a topic that the stream does not read, the offset is the batch's
        ``number``."""
        offsets = ends.offsets if ends.offsets and self._has_all(ends.offsets) else {}
        if not self._at and not offsets:
            self._at = self._without_input()
        if not self._at or self._at in {topic for topic, _ in offsets}:
            return msgspec.structs.replace(ends, offsets=offsets, at="")
        return msgspec.structs.replace(ends, offsets={**offsets, (self._at, 0): number}, at=self._at)

    def _without_input(self) -> str:
        options = self._options
        # Prefer a topic of the rows: if the progress topic is deleted, the broker also deletes its offset and so the record in the
        # group.
        topic = next(iter(options.topics), options.progress_topic)
        if topic is None:
            raise PipelineError(
                f"the stream reads no topic of {self._cluster.bootstrap}, and its rows choose their topics themselves: give with"
                " mark.topic the topic that its progress record refers to"
            )
        return topic

    def _has_all(self, input_partitions: Iterable[TopicPartition]) -> bool:
        partitions = frozenset(input_partitions)
        if partitions != self._partitions:
            counts = existing(self._cluster, sorted({topic for topic, _ in partitions}))
            self._are_there = all(index < counts.get(topic, 0) for topic, index in partitions)
            self._partitions = partitions
        return self._are_there

    def _check(self, topic: str) -> None:
        if topic not in existing(self._cluster, (topic,)):
            raise PipelineError(
                f"option 'mark.topic' is {topic!r}, which does not exist at {self._cluster.bootstrap}, or is internal: create it,"
                " or"
                " give another"
            )


def _kept(in_group: CommittedMark | None, ends: InputEnds) -> str:
    """Return the topic whose offset has the last progress record, if that is not an input topic. Records of old versions do not
    name this topic."""
    if in_group is None:
        return ""
    return in_group.mark.at or ("" if ends.offsets else in_group.topic)


def check_recreated(in_group: CommittedMark | None, ends: InputEnds) -> None:
    """Raise `PipelineError` if an input topic was deleted and created again, because the stream would skip records of the new
    topic.

    Missing offsets show this, because the broker deletes a topic's offsets with the topic. Only topics in ``ends``, which the next
    batch reads, are checked.
    """
    if in_group is None or not in_group.mark.offsets:
        return
    mark, committed = in_group.mark, in_group.ends
    wanted = mark.input_offsets()
    missing = {(topic, index) for topic, index in wanted if str(index) not in committed.get(topic, {})}
    gone = sorted({topic for topic, _ in missing & ends.offsets.keys()})
    which = ", ".join(map(repr, gone))
    if not wanted and sum(len(of_topic) for topic, of_topic in committed.items() if topic != mark.at) < mark.offsets:
        which = "part of the input"
    if which:
        raise PipelineError(
            f"the group no longer has the offsets of {which}, which were committed with batch {mark.batch}: a topic was"
            " recreated, or"
            " its offsets were deleted. If the stream continued, its first records would be lost. Start over with a new"
            " checkpoint, a"
            " new transactional.id and new topics, or leave that topic out"
        )
