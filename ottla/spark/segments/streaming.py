"""``spark.readStream.format("ottla")``: a topic out of segment files, as they grow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ottla.spark.segments.directory import Directory, View
from ottla.spark.segments.reading import EARLIEST, LATEST, plan
from ottla.spark.segments.source import SegmentReader, wanted_by
from ottla.spark.worker import prepare

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = dict[str, dict[str, int]]
"""Topic and partition to an offset, as the connector for Kafka has them in a checkpoint."""


class SegmentStream(DataSourceStreamReader):
    """Each batch ends at the last stable offsets of the moment it is planned at. Raises `PipelineError`."""

    def __init__(self, options: dict[str, str], columns: list[str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        # As the connector has it: a stream begins with what comes, unless it is told otherwise.
        self._starts_at = given.setdefault("startingoffsets", "latest")
        if self._starts_at == "latest":
            given["startingoffsets"] = "earliest"
        for name in ("endingoffsets", "endingtimestamp"):
            given.pop(name, None)
        self._wanted = wanted_by(given)
        self._reader = SegmentReader(self._wanted, columns)

    def initialOffset(self) -> Offsets:
        if self._starts_at == "latest":
            return self.latestOffset()
        wanted = self._wanted
        with closing(Directory(wanted.directory)) as directory:
            views = {index: directory.view(wanted.topic, index) for index in self._partitions(directory)}
        starts = {}
        for index, view in views.items():
            offset = wanted.starting.get(index, EARLIEST)
            starts[index] = {EARLIEST: view.start, LATEST: self._end(view)}.get(offset, offset)
        return _offsets(wanted.topic, starts)

    def latestOffset(self) -> Offsets:
        wanted = self._wanted
        with closing(Directory(wanted.directory)) as directory:
            views = {index: directory.view(wanted.topic, index) for index in self._partitions(directory)}
        return _offsets(wanted.topic, {index: self._end(view) for index, view in views.items()})

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Partitions that were added since ``start`` are read from their beginning."""
        topic = self._wanted.topic
        starts, ends = ({int(index): offset for index, offset in where.get(topic, {}).items()} for where in (start, end))
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

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        prepare()
        return self._reader.read(partition)

    def _end(self, view: View) -> int:
        return view.last_stable_offset if self._wanted.is_committed else view.end

    def _partitions(self, directory: Directory) -> list[int]:
        return directory.partitions(self._wanted.topic) if self._wanted.partitions is None else sorted(self._wanted.partitions)


def _offsets(topic: str, by_partition: dict[int, int]) -> Offsets:
    return {topic: {str(index): offset for index, offset in sorted(by_partition.items())}}
