"""What Spark's checkpoint says of a batch: up to which offsets it reads each source (OffsetSeqLog of Spark)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ottla.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_SHOWN_BYTES: Final = 1_500
"""Of input ends that stand in a mark as they are; of larger ones, as of hundreds of partitions, a digest does: a broker takes 4 KiB
of an offset's metadata (offset.metadata.max.bytes)."""
_HEAD_LINES: Final = 2
"""A version and the batch's settings stand before the sources."""


class InputEnds(msgspec.Struct, frozen=True):
    """Where a batch's input ends. ``text`` is the same each time; ``offsets`` are those of sources that are Kafka's.

    Both are empty where nobody has said so.
    """

    text: str = ""
    offsets: dict[tuple[str, int], int] = {}


def input_of(spark: SparkSession, checkpoint: str, batch: int) -> InputEnds:
    """Raises `PipelineError`."""
    text = _read(spark, f"{checkpoint}/offsets/{batch}")
    if text is None:
        raise PipelineError(f"the checkpoint {checkpoint} has no offsets of batch {batch}")
    return parse_input(text, batch)


def query_of(spark: SparkSession, checkpoint: str) -> str | None:
    """The id that the stream keeps over restarts; None for a checkpoint that is still to be made. Raises `PipelineError`."""
    text = _read(spark, f"{checkpoint}/metadata")
    return None if text is None else parse_query(text, checkpoint)


def parse_query(text: str, checkpoint: str) -> str:
    """Raises `PipelineError`."""
    try:
        return str(json.loads(text)["id"])
    except (ValueError, LookupError, TypeError):
        raise PipelineError(
            f"the checkpoint {checkpoint} does not say which stream's it is: {checkpoint}/metadata cannot be read"
        ) from None


def parse_input(text: str, batch: int) -> InputEnds:
    """Raises `PipelineError`."""
    try:
        ends = [json.loads(line) for line in text.splitlines()[_HEAD_LINES:] if line.strip() not in ("", "-")]
    except ValueError:
        raise PipelineError(f"the checkpoint's offsets of batch {batch} cannot be read") from None
    shown = json.dumps(ends[0] if len(ends) == 1 else ends, sort_keys=True, separators=(",", ":"))
    if len(shown) > MAX_SHOWN_BYTES:
        shown = f"sha256:{hashlib.sha256(shown.encode()).hexdigest()}"
    return InputEnds(shown, {where: offset for source in ends for where, offset in _offsets_of(source)})


def _offsets_of(source: Any) -> Iterator[tuple[tuple[str, int], int]]:
    """``{"orders": {"0": 12}}`` is what the connector for Kafka writes; other sources count otherwise."""
    if not isinstance(source, dict):
        return
    for topic, partitions in source.items():
        if isinstance(partitions, dict):
            for index, offset in partitions.items():
                if index.isdecimal() and isinstance(offset, int) and offset >= 0:
                    yield (topic, int(index)), offset


def _read(spark: SparkSession, path: str) -> str | None:
    """A file on any filesystem that Spark knows; None where it is not there. Raises `PipelineError`."""
    from py4j.protocol import Py4JJavaError

    context = spark.sparkContext
    jvm, configuration = context._jvm, context._jsc.hadoopConfiguration()
    try:
        where = jvm.org.apache.hadoop.fs.Path(path)
        filesystem = where.getFileSystem(configuration)
        if not filesystem.exists(where):
            return None
        stream = filesystem.open(where)
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise PipelineError(f"the checkpoint's {path} cannot be read: {error.java_exception.getMessage()}") from None
