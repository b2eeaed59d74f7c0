"""Detects batches that Spark has recorded as done, but that were never given to the sink.

If a foreachBatch function does not give the frame to the sink, for example an empty frame, there is a gap in the numbers of batches
with a progress record. The module does not depend on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.progress.marks import NO_BATCH, Mark
from ottla.spark.progress.progress_topic import ProgressTopic

_PARTITIONS_SHOWN: Final = 20


def skipped_batches(last: Mark | None, query: str, batch: int) -> range:
    """Return the numbers of a stream's batches between the last committed batch and ``batch``."""
    return range(last.batch + 1 if last is not None and last.query == query else 0, batch)


def may_skip(last: Mark | None, progress: ProgressTopic | None, query: str, is_new: Callable[[], bool]) -> bool:
    """Whether a stream may continue after a gap in the batch numbers, because the next batch was certainly not written before.

    This is certain if the batch ``is_new`` (planned in this process and not given to a sink before), or if the last progress record
    is in the progress topic or is a claim (`id_claim`). A record in the group alone is no proof, because a group's offsets can be
    reset.
    """
    is_claim = last is not None and last.query == query and last.batch == NO_BATCH
    is_recorded = last is not None and progress is not None and progress.last is not None and progress.last.mark == last
    return is_claim or is_recorded or is_new()


def describe(skipped: range, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> str:
    """Describe the skipped batches, and their offsets from ``begin`` to ``end`` if known."""
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
    return f"{which} ({'no offsets were read' if end else 'whose input has no Kafka offsets'})"
