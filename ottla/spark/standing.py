"""At which topic's offsets a stream's mark stands, in the group on the cluster that is written to.

With the offsets of what the stream reads, where that cluster has those topics: so tools show how far behind the stream is. Where it
has not, as the input is files or lies on another cluster, at a topic that is chosen once and kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.checkpoint import InputEnds
from ottla.spark.errors import PipelineError
from ottla.spark.marks import Standing, group_of, read_standing
from ottla.spark.options import SinkOptions
from ottla.spark.topics import existing
from ottla.spark.wire import ClusterClient


class MarkPlace:
    """Of one transactional id. ``choose`` comes first; what is chosen holds until it is called again. Raises `PipelineError`."""

    def __init__(self, cluster: ClusterClient, options: SinkOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._at = ""
        self._partitions: frozenset[TopicPartition] = frozenset()
        """Of the input, and whether all of them are on the cluster: asked again when there are others."""
        self._are_there = False

    def choose(self, ends: InputEnds) -> None:
        """The option's topic, or the one where the last mark stands."""
        self._partitions = frozenset()
        named = self._options.mark_topic
        if named is not None:
            self._check(named)
            self._at = named
            return
        standing = read_standing(self._cluster, group_of(self._options.transactional_id), is_stable=False)
        kept = _kept(standing, ends)
        self._at = kept if kept and existing(self._cluster, (kept,)) else ""

    def of(self, ends: InputEnds, number: int) -> InputEnds:
        """What is committed with a batch: ``number`` stands as the offset of a topic that the stream does not read."""
        offsets = ends.offsets if ends.offsets and self._has_all(ends.offsets) else {}
        if not self._at and not offsets:
            self._at = self._without_input()
        if not self._at or self._at in {topic for topic, _ in offsets}:
            return msgspec.structs.replace(ends, offsets=offsets, at="")
        return msgspec.structs.replace(ends, offsets={**offsets, (self._at, 0): number}, at=self._at)

    def _without_input(self) -> str:
        options = self._options
        topic = options.mark_log_topic or next(iter(options.topics), None)
        if topic is None:
            raise PipelineError(
                f"the stream reads no topic that is at {self._cluster.bootstrap}, and its rows say themselves where they go: say by"
                " mark.topic with which topic's offsets its mark stands"
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
                f"option 'mark.topic' is {topic!r}, which is not at {self._cluster.bootstrap}, or is internal there: create it, or"
                " name another"
            )


def _kept(standing: Standing | None, ends: InputEnds) -> str:
    """Before marks said where they stand, those of streams that read no topic stood at the first one of all."""
    if standing is None:
        return ""
    return standing.mark.at or ("" if ends.offsets else standing.topic)


def check_recreated(standing: Standing | None, ends: InputEnds) -> None:
    """Offsets go with their topic: one that was made anew has none, and the stream would go on behind what is new in it.

    ``ends`` are those of the batch that comes next: what is read no more may have gone. Raises `PipelineError`.
    """
    if standing is None or not standing.mark.offsets:
        return
    mark, committed = standing.mark, standing.ends
    wanted = mark.input_offsets()
    missing = {(topic, index) for topic, index in wanted if str(index) not in committed.get(topic, {})}
    gone = sorted({topic for topic, _ in missing & ends.offsets.keys()})
    which = ", ".join(map(repr, gone))
    if not wanted and sum(len(of_topic) for topic, of_topic in committed.items() if topic != mark.at) < mark.offsets:
        which = "part of the input"
    if which:
        raise PipelineError(
            f"the group has no offsets any more of {which}, which were committed with batch {mark.batch}: a topic was made anew, or"
            " its offsets were deleted. Read on now, its first records would be lost. Begin anew with a checkpoint, a"
            " transactional.id and topics of their own, or leave that topic out"
        )
