"""``spark.readStream.format("ottla")``: reads a topic from segment files as they grow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ottla.spark.checkpoint.checkpoint_files import last_offsets_in
from ottla.spark.errors import PipelineError
from ottla.spark.segments.directories import Directories
from ottla.spark.segments.directory import View
from ottla.spark.segments.reading import EARLIEST, LATEST, plan
from ottla.spark.segments.source import SegmentReader, number, wanted_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

Offsets = dict[str, Any]
"""Offsets by topic and partition in the format of Spark's Kafka connector, and the topic's id under `TOPIC_ID`."""
TOPIC_ID = "#topic id"
"""The key of the topic's id, which is not a valid topic name. The id shows whether the topic was deleted and created again."""
_IS_TOLD = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
"""Whether Spark passes the start offsets to a source (since Spark 4.2)."""
_NEEDS_CHECKPOINT = (
    "maxOffsetsPerTrigger needs the option checkpointLocation, that of the query, for the source as well: before 4.2 Spark does not"
    " tell it where a restarted stream continues"
)
_BOUND, _CHECKPOINT = "maxoffsetspertrigger", "checkpointlocation"


class SegmentStream(DataSourceStreamReader):
    """Streams a topic. Each batch ends at the last stable offsets at planning time, or earlier with ``maxOffsetsPerTrigger``.

    Before version 4.2 Spark does not pass start offsets to a Python source. So the source remembers the last end offsets, and after
    a restart reads them from the checkpoint at ``checkpointLocation``. Raises `PipelineError`.
    """

    def __init__(self, options: dict[str, str], columns: list[str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        # As in Spark's Kafka connector, a stream begins with new records by default.
        self._starts_at = given.setdefault("startingoffsets", "latest")
        if self._starts_at == "latest":
            given["startingoffsets"] = "earliest"
        for name in ("endingoffsets", "endingtimestamp"):
            given.pop(name, None)
        bound, self._checkpoint = given.pop(_BOUND, None), given.pop(_CHECKPOINT, None)
        self._most = None if bound is None else number(bound, "maxOffsetsPerTrigger")
        if self._most == 0:
            raise PipelineError("maxOffsetsPerTrigger is 0; give at least 1")
        if self._most is not None and self._checkpoint is None and not _IS_TOLD:
            raise PipelineError(_NEEDS_CHECKPOINT)
        self._last: Offsets | None = None
        self._initial: Offsets | None = None
        """The start offsets of a new stream. They are stored, because Spark requests the first batch's end before the start:
        records that arrive between the two calls must not move the start past the end."""
        self._topic_id: str | None = None
        """The topic's id when the directory was last read."""
        self._wanted = wanted_by(given)
        self._reader = SegmentReader(self._wanted, columns)

    def initialOffset(self) -> Offsets:
        if self._initial is None:
            self._initial = self._ends() if self._starts_at == "latest" else self._starts()
        self._last = self._last or self._initial
        return self._initial

    def _starts(self) -> Offsets:
        starts: dict[int, int] = {}
        for index, view in self._views().items():
            offset = self._wanted.starting.get(index, EARLIEST)
            starts[index] = {EARLIEST: view.start, LATEST: self._end(view)}.get(offset, offset)
        return self._offsets(starts)

    def latestOffset(self, start: Offsets | None = None, limit: Any = None) -> Offsets:
        """Return the end of the next batch. Spark passes ``start`` since version 4.2."""
        if self._most is None:
            newest = self._ends()
            if self._starts_at == "latest" and self._initial is None:
                self._initial = newest
            return newest
        start = start or self._last or self._committed()
        views = self._views()
        if self._is_anew(start, {index: self._end(view) for index, view in views.items()}, self._topic_id):
            start = {}
        begins = {index: start.get(self._wanted.topic, {}).get(str(index), view.start) for index, view in views.items()}
        ends = bounded(begins, {index: self._end(view) for index, view in views.items()}, self._most)
        self._last = self._offsets(ends)
        return self._last

    def _committed(self) -> Offsets:
        if self._checkpoint is None:
            raise PipelineError(_NEEDS_CHECKPOINT)
        return last_offsets_in(self._checkpoint, self._wanted.topic) or self.initialOffset()

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Plan the splits of a batch. Partitions that were added since ``start`` are read from their beginning."""
        # After a restart Spark plans the last batch again, and the stream continues at the end of that batch.
        self._last = end
        topic = self._wanted.topic
        starts, ends = ({int(index): offset for index, offset in where.get(topic, {}).items()} for where in (start, end))
        self._views()
        # If the topic was deleted and created again, before or after the batch was planned, the old records no longer exist.
        if any([self._is_anew(start, ends, end.get(TOPIC_ID)), self._is_anew(end, {}, self._topic_id)]):
            starts = {}
        chosen = tuple(index for index in sorted(ends) if ends[index] > starts.get(index, -1))
        if not chosen:
            return []
        wanted = msgspec.structs.replace(
            self._wanted,
            partitions=chosen,
            starting={index: starts[index] for index in chosen if index in starts},
            ending={index: ends[index] for index in chosen},
        )
        return [InputPartition(split) for split in plan(wanted)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)

    def _is_anew(self, start: Offsets, ends: Mapping[int, int], topic_id: str | None) -> bool:
        """Whether the topic was deleted and created again, so that the stream's offsets belong to the old topic.

        If so, raises `PipelineError`, unless failOnDataLoss is false: then the new topic is read from its beginning.
        """
        topic, was = self._wanted.topic, start.get(TOPIC_ID)
        starts = {int(index): offset for index, offset in start.get(topic, {}).items()}
        behind = next((index for index in sorted(ends) if ends[index] < starts.get(index, 0)), None)
        if was is not None and topic_id is not None and was != topic_id:
            why = (
                f"{topic}: the stream has read the topic with the id {was}, but this topic has the id {topic_id}: it was recreated"
            )
        elif behind is not None:
            why = (
                f"{topic}-{behind}: the stream is at offset {starts[behind]}, and its source at {ends[behind]}: the log was"
                " recreated, or the source's checkpointLocation is not the query's"
            )
        else:
            return False
        if self._wanted.fails_on_data_loss:
            raise PipelineError(f"{why}. failOnDataLoss=false reads the current topic from its beginning")
        return True

    def _ends(self) -> Offsets:
        views = self._views()
        return self._offsets({index: self._end(view) for index, view in views.items()})

    def _offsets(self, by_partition: Mapping[int, int]) -> Offsets:
        """Return offsets in the connector's format, with the id of the topic."""
        offsets: Offsets = {self._wanted.topic: {str(index): offset for index, offset in sorted(by_partition.items())}}
        return offsets if self._topic_id is None else offsets | {TOPIC_ID: self._topic_id}

    def _end(self, view: View) -> int:
        return view.last_stable_offset if self._wanted.is_committed else view.end

    def _views(self) -> dict[int, View]:
        wanted = self._wanted
        with closing(Directories(wanted.directories)) as directories:
            known = directories.of_topic(wanted.topic, wanted.partitions or ())
            chosen = {index: known[index] for index in (known if wanted.partitions is None else sorted(wanted.partitions))}
            self._topic_id = directories.topic_id(wanted.topic, chosen)
            return directories.views(wanted.topic, chosen)


def bounded(starts: Mapping[int, int], ends: Mapping[int, int], most: int) -> dict[int, int]:
    """Return end offsets so that the batch has about ``most`` records. As in Spark's Kafka connector, each partition's share is
    proportional to its lag, but at least one record, so that all partitions reach their ends at about the same time."""
    waiting = {index: max(0, ends[index] - starts[index]) for index in ends}
    total = sum(waiting.values())
    if total <= most:
        return {index: starts[index] + waiting[index] for index in ends}
    return {
        index: starts[index] + min(waiting[index], max(1, most * waiting[index] // total)) for index in ends if waiting[index]
    } | {index: starts[index] for index in ends if not waiting[index]}
