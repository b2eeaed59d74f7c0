"""``spark.read.format("ottla")``: reads a topic from a broker's segment files, with the columns of Spark's Kafka connector.

Options with the connector's names and meanings: ``subscribe`` (one topic), ``kafka.isolation.level`` (by default
``read_committed``), ``startingOffsets`` and ``endingOffsets`` (``earliest``, ``latest`` or ``{"0": 5}``), ``startingTimestamp`` and
``endingTimestamp`` (ms), ``failOnDataLoss``, ``includeHeaders``, and for a stream ``maxOffsetsPerTrigger``. Further options:
``path`` (the broker's log.dirs, under the same paths on every executor), ``partitions`` (``0,2``), ``splitBytes``. A schema with
fewer columns is read faster: ``.schema("value BINARY")``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.spark.errors import PipelineError
from ottla.spark.segments.reading import COLUMNS, SPLIT_BYTES, Bounds, ReadRequest, parse_bounds, plan, read
from ottla.spark.worker import prepare

if TYPE_CHECKING:
    import pyarrow as pa

_KNOWN = {
    "path",
    "subscribe",
    "kafka.isolation.level",
    "startingoffsets",
    "endingoffsets",
    "startingtimestamp",
    "endingtimestamp",
    "failondataloss",
    "includeheaders",
    "partitions",
    "splitbytes",
}


def wanted_by(options: dict[str, str]) -> ReadRequest:
    """Parse the options. As in Spark, the case of their names does not matter. Raises `PipelineError`."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(set(given) - _KNOWN)
    if unknown:
        raise PipelineError(f"the segment source has no option {unknown[0]!r}; its options are {', '.join(sorted(_KNOWN))}")
    for name in ("path", "subscribe"):
        if name not in given:
            raise PipelineError(f"the segment source needs the option {name!r}")
    level = given.get("kafka.isolation.level", "read_committed")
    if level not in ("read_committed", "read_uncommitted"):
        raise PipelineError(f"kafka.isolation.level {level!r} is not read_committed or read_uncommitted")
    partitions = given.get("partitions")
    return ReadRequest(
        given["path"],
        given["subscribe"],
        level == "read_committed",
        None if partitions is None else tuple(number(p, "partitions") for p in partitions.split(",")),
        _bounds(given.get("startingoffsets", "earliest"), "startingOffsets", given["subscribe"]),
        _bounds(given.get("endingoffsets", "latest"), "endingOffsets", given["subscribe"]),
        _maybe(given.get("startingtimestamp"), "startingTimestamp"),
        _maybe(given.get("endingtimestamp"), "endingTimestamp"),
        given.get("failondataloss", "true").lower() == "true",
        number(given.get("splitbytes", str(SPLIT_BYTES)), "splitBytes"),
    )


def _bounds(text: str, option: str, topic: str) -> Bounds:
    return {} if text == {"startingOffsets": "earliest", "endingOffsets": "latest"}[option] else parse_bounds(text, option, topic)


def number(text: str, option: str) -> int:
    if not text.strip().isdigit():
        raise PipelineError(f"{option} {text!r} is not a number")
    return int(text)


def _maybe(text: str | None, option: str) -> int | None:
    return None if text is None else number(text, option)


class SegmentReader(DataSourceReader):
    def __init__(self, wanted: ReadRequest, columns: list[str]) -> None:
        unknown = [name for name in columns if name not in COLUMNS]
        if unknown:
            raise PipelineError(f"the segment source has no column {unknown[0]!r}; its columns are {', '.join(COLUMNS)}")
        self._wanted = wanted
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(split) for split in plan(self._wanted)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read a split. Spark calls this with None if there are no splits."""
        prepare()
        return iter(()) if partition is None else read(partition.value, self._columns)
