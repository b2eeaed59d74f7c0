"""Exports the committed records of a topic as Parquet files, each record once. A repeated export completes an interrupted one, and
adds new records. Each export first stores a plan that divides the new offsets into parts. Each part is written to a temporary
directory and then renamed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.client.admin.offsets import ranges
from ottla.client.security.client_config import Connecting
from ottla.pipeline.stream import source_options
from ottla.protocol.uuids import uuid_text
from ottla.spark.cluster.client import cluster_client
from ottla.spark.cluster.topics import topic_ids
from ottla.spark.errors import PipelineError, cause_of
from ottla.spark.progress.marks import commit_ends, read_ends
from ottla.spark.rows.rows import RECORD
from ottla.spark.worker import prepare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.segments.reading import Split

PART_OFFSETS = 1_000_000
"""Approximate number of offsets in a part."""
_PLAN = "_plan-"
_ASIDE = "_aside"

Range = tuple[int, int]


class ExportPart(msgspec.Struct, frozen=True):
    """A part of an export: offset ranges [first, last) by partition."""

    number: int
    ranges: dict[int, Range]


class ExportPlan(msgspec.Struct, frozen=True):
    """The parts that one execution of the job adds to the export, and the topic's id in Kafka's text form, or None if unknown."""

    topic: str
    parts: list[ExportPart]
    topic_id: str | None = None


class ExportOptions(msgspec.Struct, frozen=True):
    """The options of an export. With ``data_dir`` the broker's segment files are read, otherwise records are fetched from the
    broker.

    After each part the export's offsets are committed to ``group``, only to let tools show the export's lag.
    """

    bootstrap: str
    topic: str
    to: str
    data_dir: str | None = None
    part_offsets: int = PART_OFFSETS
    group: str | None = None


class Files:
    """The target directory of an export, on any file system that Spark supports."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._root = self._path(root)
        self._fs = self._root.getFileSystem(spark._jsc.hadoopConfiguration())
        self._fs.mkdirs(self._root)

    def names(self) -> list[str]:
        return sorted(status.getPath().getName() for status in self._fs.listStatus(self._root))

    def path(self, name: str) -> str:
        return str(self._path(self._root, name).toString())

    def local(self, name: str) -> str | None:
        """Return the path on a local disk; None for other file systems."""
        if self._fs.getScheme() != "file":
            return None
        # Return an absolute path, because tasks may have another working directory than the driver.
        return str(self._fs.makeQualified(self._path(self._root, name)).toUri().getPath())

    def read(self, name: str) -> bytes:
        stream = self._fs.open(self._path(self._root, name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, name: str, data: bytes) -> None:
        """Write a new file atomically."""
        aside = self._path(self._root, f"_{name}.tmp")
        stream = self._fs.create(aside, True)
        stream.write(bytearray(data))
        stream.close()
        self.rename(f"_{name}.tmp", name)

    def rename(self, old: str, new: str) -> None:
        if not self._fs.rename(self._path(self._root, old), self._path(self._root, new)):
            raise PipelineError(f"{self.path(old)} cannot be renamed to {new}")

    def remove(self, name: str) -> None:
        self._fs.delete(self._path(self._root, name), True)


def plans(files: Files, topic: str) -> list[ExportPlan]:
    """Read the plans of earlier executions. Raises `PipelineError` if the plans are of another topic."""
    earlier_plans = []
    for name in files.names():
        if name.startswith(_PLAN):
            try:
                earlier_plans.append(msgspec.json.decode(files.read(name), type=ExportPlan))
            except msgspec.DecodeError as error:
                raise PipelineError(
                    f"{files.path(name)} is not the plan of an export ({error}); export to another directory"
                ) from None
    for plan in earlier_plans:
        if plan.topic != topic:
            raise PipelineError(f"{files.root} has an export of topic {plan.topic!r}; give {topic!r} another directory")
    return earlier_plans


def ends_of(before: list[ExportPlan]) -> dict[int, int]:
    """Return the end of the planned offsets of each partition."""
    ends: dict[int, int] = {}
    for plan in before:
        for part in plan.parts:
            ends |= {index: max(last, ends.get(index, 0)) for index, (_, last) in part.ranges.items()}
    return ends


def planned(topic: str, ranges: dict[int, Range], before: list[ExportPlan], part_offsets: int) -> ExportPlan:
    """Plan parts for offsets that no earlier plan contains. Raises `PipelineError` if some of these offsets were already
    deleted."""
    number = sum(len(plan.parts) for plan in before)
    parts: list[ExportPart] = []
    at = {index: start for index, (start, _) in ranges.items()} | ends_of(before)
    for index, (start, _) in ranges.items():
        if at[index] < start:
            raise PipelineError(
                f"{topic}-{index}: the export has offsets up to {at[index]}, but the log begins at {start}:"
                " retention has removed the records between; export to a new directory"
            )
    share = max(1, part_offsets // max(1, len(ranges)))
    while any(at[index] < end for index, (_, end) in ranges.items()):
        piece = {index: (at[index], min(end, at[index] + share)) for index, (_, end) in ranges.items() if at[index] < end}
        at |= {index: last for index, (_, last) in piece.items()}
        parts.append(ExportPart(number + len(parts), piece))
    return ExportPlan(topic, parts)


def export(spark: SparkSession, options: ExportOptions, on_part: Callable[[int, int, int], None]) -> int:
    """Export the records and return the number of newly written records. ``on_part`` is called with three numbers: finished parts,
    all parts, and written records. Raises `PipelineError`."""
    files = Files(spark, options.to)
    before = plans(files, options.topic)
    noted = _Noted(options, ends_of(before))
    topic_id = _topic_id(options)
    _check_topic_id(options, topic_id, [plan.topic_id for plan in before])
    new = planned(options.topic, _ranges(options), before, options.part_offsets)
    new = msgspec.structs.replace(new, topic_id=topic_id)
    if new.parts:
        files.write(f"{_PLAN}{len(before):05d}.json", msgspec.json.encode(new))
    names = set(files.names())
    waiting = [part for plan in (*before, new) for part in plan.parts if _name(part) not in names]
    total = 0
    noted.add([part for plan in (*before, new) for part in plan.parts if part not in waiting])
    for number, part in enumerate(waiting, 1):
        aside = f"{_ASIDE}-{part.number:05d}"
        files.remove(aside)
        try:
            written = _write(spark, options, part, files, aside)
        except PipelineError:
            raise
        except Exception as error:
            raise PipelineError(cause_of(str(error))) from error
        # The topic may have been deleted and created again while it was read.
        _check_topic_id(options, _topic_id(options), [topic_id])
        files.rename(aside, _name(part))
        noted.add([part])
        total += written
        on_part(number, len(waiting), written)
    return total


class _Noted:
    """Commits the progress of an export to a group. Raises `PipelineError` for a group with higher offsets than the plans: it
    belongs to another export, or plans were lost."""

    def __init__(self, options: ExportOptions, planned_ends: dict[int, int]) -> None:
        self._options = options
        self._ends: dict[str, int] = {}
        if options.group is None:
            return
        with closing(cluster_client(Connecting(options.bootstrap))) as cluster:
            committed = read_ends(cluster, options.group).get(options.topic, {})
        for index, offset in committed.items():
            if offset > planned_ends.get(int(index), 0):
                raise PipelineError(
                    f"group {options.group!r} has exported {options.topic}-{index} up to {offset}, and {options.to} up to"
                    f" {planned_ends.get(int(index), 0)}: give the directory of that export, or another group"
                )

    def add(self, parts: list[ExportPart]) -> None:
        """Commit the end offsets of parts, in the order of the parts."""
        if self._options.group is None or not parts:
            return
        for part in parts:
            self._ends |= {str(index): last for index, (_, last) in part.ranges.items()}
        with closing(cluster_client(Connecting(self._options.bootstrap))) as cluster:
            commit_ends(cluster, self._options.group, {self._options.topic: self._ends})


def _write(spark: SparkSession, options: ExportOptions, part: ExportPart, files: Files, aside: str) -> int:
    """Write the records of a part and return their number. If segment files are read and the target is a local disk, tasks write
    with pyarrow."""
    local = files.local(aside)
    if options.data_dir is None or local is None:
        _read(spark, options, part).write.parquet(files.path(aside))
        return int(spark.read.parquet(files.path(aside)).count())
    from ottla.spark.segments.reading import ReadRequest, plan

    starts, ends = ({index: bounds[which] for index, bounds in part.ranges.items()} for which in (0, 1))
    splits = plan(ReadRequest(options.data_dir, options.topic, partitions=tuple(part.ranges), starting=starts, ending=ends))
    Path(local).mkdir()
    tasks = spark.sparkContext.parallelize(list(enumerate(splits)), len(splits))
    written = int(tasks.map(lambda task: _write_split(task, local)).sum())
    for left in Path(local).glob(".*"):
        left.unlink()
    return written


def _write_split(task: tuple[int, Split], directory: str) -> int:
    from ottla.spark.segments.parquet import write

    prepare()
    number, split = task
    return write(split, directory, number)


def _name(part: ExportPart) -> str:
    return f"part={part.number:05d}"


def _topic_id(options: ExportOptions) -> str | None:
    """Return the topic's id in Kafka's text form; None if the broker or directory has no id for the topic."""
    if options.data_dir is None:
        with closing(cluster_client(Connecting(options.bootstrap))) as cluster:
            topic_id = topic_ids(cluster, [options.topic]).get(options.topic)
        return None if topic_id is None else uuid_text(bytes.fromhex(topic_id))
    from ottla.spark.segments.directories import Directories

    with closing(Directories(options.data_dir)) as directories:
        return directories.topic_id(options.topic, directories.of_topic(options.topic))


def _check_topic_id(options: ExportOptions, now: str | None, known: Iterable[str | None]) -> None:
    """Raise `PipelineError` if the topic was deleted and created again, because the plans have the offsets of the old topic."""
    for before in known:
        if now is not None and before not in (None, now):
            raise PipelineError(
                f"topic {options.topic!r} was deleted and created again since it was exported to {options.to}: its id is {now},"
                f" before {before}. The export would miss the first records of the new topic: export it to another directory"
            )


def _ranges(options: ExportOptions) -> dict[int, Range]:
    """Return the first offset and the last stable offset of each partition."""
    if options.data_dir is None:
        cluster = cluster_client(Connecting(options.bootstrap))
        try:
            return ranges(cluster, options.topic, committed=True)
        finally:
            cluster.close()
    from ottla.spark.segments.directories import Directories

    with closing(Directories(options.data_dir)) as directories:
        views = directories.views(options.topic, directories.of_topic(options.topic))
    return {index: (view.start, view.last_stable_offset) for index, view in views.items()}


def _read(spark: SparkSession, options: ExportOptions, part: ExportPart) -> DataFrame:
    starts = {str(index): first for index, (first, _) in part.ranges.items()}
    ends = {str(index): last for index, (_, last) in part.ranges.items()}
    if options.data_dir is not None:
        reader = spark.read.format("ottla").schema(RECORD).option("path", options.data_dir).option("subscribe", options.topic)
        reader = reader.option("partitions", ",".join(starts)).option("failOnDataLoss", "true")
        return reader.option("startingOffsets", json.dumps(starts)).option("endingOffsets", json.dumps(ends)).load()
    settings = source_options(options.bootstrap, options.topic)
    del settings["subscribe"]
    settings["assign"] = json.dumps({options.topic: sorted(part.ranges)})
    settings["startingOffsets"] = json.dumps({options.topic: starts})
    settings["endingOffsets"] = json.dumps({options.topic: ends})
    return spark.read.format("kafka").options(**settings, failOnDataLoss="true").load()
