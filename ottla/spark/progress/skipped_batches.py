"""Batches that were not given to the sink, which Spark has noted as done all the same.

The function given to foreachBatch may return without giving its frame to the sink, for example because the frame is empty. Such a
batch has no mark, so the numbers of the marks have a gap. Nothing here knows of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.progress.marks import NO_BATCH, Mark
from ottla.spark.progress.progress_topic import ProgressTopic

_PARTITIONS_SHOWN: Final = 20


def skipped_batches(last: Mark | None, query: str, batch: int) -> range:
    """The numbers of a stream's batches after the last committed one and before ``batch``."""
    return range(last.batch + 1 if last is not None and last.query == query else 0, batch)


def may_skip(last: Mark | None, progress: ProgressTopic | None, query: str, is_new: Callable[[], bool]) -> bool:
    """Whether a stream may go on after a gap: its next batch was certainly not written before.

    That is so where the batch ``is_new``: planned in this process, and not given to a sink before; and where the last mark is the
    progress topic's, or is the claim of a stream that has committed nothing (`claiming`). A group alone may have been set back or
    deleted.
    """
    is_claim = last is not None and last.query == query and last.batch == NO_BATCH
    is_recorded = last is not None and progress is not None and progress.last is not None and progress.last.mark == last
    return is_claim or is_recorded or is_new()


def describe(skipped: range, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> str:
    """The batches and the offsets that they have read, from ``begin`` to ``end`` as far as those are known."""
    which = f"batch {skipped[0]}" if len(skipped) == 1 else f"batches {skipped[0]} to {skipped[-1]}"
    parts = [
        f"{topic}-{index}: {begin[topic, index]} to {offset}" if (topic, index) in begin else f"{topic}-{index}: up to {offset}"
        for (topic, index), offset in sorted(end.items())
        if begin.get((topic, index)) != offset
    ]
    if len(parts) > _PARTITIONS_SHOWN:
        parts[_PARTITIONS_SHOWN:] = [f"and {len(parts) - _PARTITIONS_SHOWN} more partitions"]
    if parts:
        return f"{which} (offsets of {', '.join(parts)})"
    return f"{which} ({'no offsets were read' if end else 'whose input has no offsets of Kafka'})"
