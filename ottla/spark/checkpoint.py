"""Reads from Spark's checkpoint up to which offsets a batch reads each source (OffsetSeqLog of Spark)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ottla.spark.errors import PipelineError
from ottla.spark.file_sources import HEAD_LINES, files_digest
from ottla.spark.marks import offsets_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_SHOWN_BYTES: Final = 1_500
"""The largest input ends, in bytes, that a mark contains as text. Larger ones, as of hundreds of partitions, are replaced by a
digest, because a broker takes 4 KiB of metadata with an offset (offset.metadata.max.bytes)."""


class InputEnds(msgspec.Struct, frozen=True):
    """The ends of a batch's input. ``text`` is equal for equal ends; ``offsets`` are those of sources that are Kafka topics.

    ``begin`` is where the input of the stream's first batch begins, in the form of ``text``. ``content`` is a digest of the files
    that were read. All are empty where they are unknown. ``at`` is the topic in ``offsets`` at which `standing.MarkPlace` puts the
    batch's mark.
    """

    text: str = ""
    offsets: dict[tuple[str, int], int] = {}
    begin: str = ""
    content: str = ""
    at: str = ""

    def committed_beside(self) -> int:
        """How many of the input's offsets are committed with the batch."""
        return len(self.offsets) - bool(self.at)


def input_of(spark: SparkSession, checkpoint: str, batch: int) -> InputEnds:
    """The input ends of a batch. Raises `PipelineError`."""
    text = _read(spark, f"{checkpoint}/offsets/{batch}")
    if text is None:
        raise PipelineError(f"the checkpoint {checkpoint} has no offsets of batch {batch}")
    ends = with_content(parse_input(text, batch), text, batch, lambda name: _read(spark, f"{checkpoint}/{name}"))
    return ends if batch else msgspec.structs.replace(ends, begin=_begin_of(spark, checkpoint))


def with_content(ends: InputEnds, text: str, batch: int, read: Callable[[str], str | None]) -> InputEnds:
    """The ends with the digest of the files that were read. ``text`` are the batch's offsets; ``read`` returns a file of the
    checkpoint. Raises `PipelineError`."""
    if "logOffset" not in ends.text and not ends.text.startswith("sha256:"):
        return ends
    before = read(f"offsets/{batch - 1}") if batch else None
    return msgspec.structs.replace(ends, content=files_digest(text, before, read))


def _begin_of(spark: SparkSession, checkpoint: str) -> str:
    """Where the sources began, which the connector for Kafka writes for each source (KafkaSourceInitialOffsetWriter of Spark)."""
    begins: list[str] = []
    while (text := _read(spark, f"{checkpoint}/sources/{len(begins)}/0")) is not None:
        begins.append(text)
    return parse_begin(begins)


def parse_begin(texts: Sequence[str]) -> str:
    """The offsets of each text, which consists of a zero byte, a version and the offsets; "" where a text has another form."""
    try:
        sources = [json.loads(text[text.index("{") :]) for text in texts]
    except ValueError:
        return ""
    # Sources of files write such notes as well, which have no offsets to begin at.
    are_kafkas = all(isinstance(source, dict) and all(isinstance(p, dict) for p in source.values()) for source in sources)
    return _shown(sources) if sources and are_kafkas else ""


def keeps_state(spark: SparkSession, checkpoint: str) -> bool:
    """Whether the stream keeps state between batches, such as totals and windows. Raises `PipelineError`."""
    with _of_the_filesystem(spark, f"{checkpoint}/state") as (filesystem, where):
        return bool(filesystem.exists(where))


def has_committed(spark: SparkSession, checkpoint: str) -> bool:
    """Whether Spark has noted any batch as done. Raises `PipelineError`."""
    with _of_the_filesystem(spark, f"{checkpoint}/commits") as (filesystem, where):
        return filesystem.exists(where) and any(str(file.getPath().getName()).isdecimal() for file in filesystem.listStatus(where))


def parse_input(text: str, batch: int) -> InputEnds:
    """The input ends in a batch's offsets. Raises `PipelineError`."""
    ends = parse_sources(text, batch)
    return InputEnds(_shown(ends), {where: offset for source in ends for where, offset in offsets_of(source)})


def parse_sources(text: str, batch: int) -> list[Any]:
    """The offset of each source that has one. Raises `PipelineError`."""
    try:
        return [json.loads(line) for line in text.splitlines()[HEAD_LINES:] if line.strip() not in ("", "-")]
    except ValueError:
        raise PipelineError(f"the checkpoint's offsets of batch {batch} cannot be read") from None


def _shown(sources: list[Any]) -> str:
    shown = json.dumps(sources[0] if len(sources) == 1 else sources, sort_keys=True, separators=(",", ":"))
    return shown if len(shown) <= MAX_SHOWN_BYTES else f"sha256:{hashlib.sha256(shown.encode()).hexdigest()}"


def _read(spark: SparkSession, path: str) -> str | None:
    """The text of a file on any file system that Spark knows; None where the file is missing. Raises `PipelineError`."""
    with _of_the_filesystem(spark, path) as (filesystem, where):
        if not filesystem.exists(where):
            return None
        stream = filesystem.open(where)
        try:
            return str(spark.sparkContext._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()


@contextmanager
def _of_the_filesystem(spark: SparkSession, path: str) -> Iterator[tuple[Any, Any]]:
    """A file system and a path of Hadoop. Errors inside the block are raised as `PipelineError`."""
    from py4j.protocol import Py4JJavaError

    context = spark.sparkContext
    try:
        where = context._jvm.org.apache.hadoop.fs.Path(path)
        yield where.getFileSystem(context._jsc.hadoopConfiguration()), where
    except Py4JJavaError as error:
        raise PipelineError(f"the checkpoint's {path} cannot be read: {error.java_exception.getMessage()}") from None
