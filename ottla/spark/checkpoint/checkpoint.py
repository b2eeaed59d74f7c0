"""Reads from Spark's checkpoint the offsets up to which a batch reads each source (Spark's OffsetSeqLog)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ottla.spark.checkpoint.file_sources import HEAD_LINES, files_digest
from ottla.spark.errors import PipelineError
from ottla.spark.progress.marks import offsets_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_SHOWN_BYTES: Final = 1_500
"""Maximum size, in bytes, of `InputEnds.text`. A longer text, as with hundreds of partitions, is replaced by a digest, because a
broker accepts 4 KiB of metadata with an offset (offset.metadata.max.bytes)."""


class InputEnds(msgspec.Struct, frozen=True):
    """The offsets at which a batch's input ends: ``text`` has those of all sources, ``offsets`` those of Kafka partitions.

    ``begin`` has the start offsets of the stream's first batch, in the format of ``text``. ``content`` is a digest of the names of
    input files. These fields are empty if unknown. ``at`` is the topic in ``offsets`` that `mark_topic.MarkPlace` has chosen for
    the batch's progress record. ``planned_ms`` is the time at which Spark planned the batch, by the driver's clock.
    """

    text: str = ""
    offsets: dict[tuple[str, int], int] = {}
    begin: str = ""
    content: str = ""
    at: str = ""
    planned_ms: int = 0

    def topics(self) -> set[str]:
        """Return the input topics that are on the sink's cluster."""
        return {topic for topic, _ in self.offsets} - {self.at}

    def committed_beside(self) -> int:
        """Return the number of input offsets that are committed with the batch."""
        return len(self.offsets) - bool(self.at)


class Checkpoint:
    """The checkpoint directory of one streaming query, read through Hadoop, which supports all file systems of Spark.

    The JVM objects for reading are looked up once, because each call to the JVM takes up to a millisecond. All methods raise
    `PipelineError`.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        context = spark.sparkContext
        jvm: Any = context._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._text_of = jvm.org.apache.commons.io.IOUtils.toString
        with self._reading(""):
            self._filesystem = self._path(root).getFileSystem(context._jsc.hadoopConfiguration())
        self._states = self._path(f"{root}/state")
        self._keeps_state = False

    def input_of(self, batch: int) -> InputEnds:
        """Read the offsets at which a batch's input ends."""
        text = self._read(f"offsets/{batch}")
        if text is None:
            raise PipelineError(f"the checkpoint {self.root} has no offsets of batch {batch}")
        return with_content(parse_input(text, batch), text, batch, self._read)

    def first_begin(self) -> str:
        """Read the start offsets of the stream's first batch, in the format of `InputEnds.begin`."""
        return parse_begin(self._begins())

    def begin_of(self, batch: int) -> dict[tuple[str, int], int]:
        """Read the start offsets of a batch's Kafka sources; empty if unknown."""
        if batch == 0:
            return begin_offsets(self._begins())
        text = self._read(f"offsets/{batch - 1}")
        return {} if text is None else parse_input(text, batch - 1).offsets

    def keeps_state(self) -> bool:
        """Whether the stream keeps state between batches, such as totals and windows. Once true, the result stays true."""
        if not self._keeps_state:
            with self._reading("state"):
                self._keeps_state = bool(self._filesystem.exists(self._states))
        return self._keeps_state

    def has_committed(self) -> bool:
        """Whether Spark has recorded a batch as done."""
        with self._reading("commits"):
            where = self._path(f"{self.root}/commits")
            return self._filesystem.exists(where) and any(
                str(file.getPath().getName()).isdecimal() for file in self._filesystem.listStatus(where)
            )

    def _begins(self) -> list[str]:
        """Read the start offsets of each Kafka source, which Spark's Kafka connector writes (KafkaSourceInitialOffsetWriter)."""
        begins: list[str] = []
        while (text := self._read(f"sources/{len(begins)}/0")) is not None:
            begins.append(text)
        return begins

    def _read(self, name: str) -> str | None:
        with self._reading(name):
            where = self._path(f"{self.root}/{name}")
            if not self._filesystem.exists(where):
                return None
            stream = self._filesystem.open(where)
            try:
                return str(self._text_of(stream, "UTF-8"))
            finally:
                stream.close()

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            raise PipelineError(
                f"the checkpoint's {self.root}/{name} cannot be read: {error.java_exception.getMessage()}"
            ) from None


def with_content(ends: InputEnds, text: str, batch: int, read: Callable[[str], str | None]) -> InputEnds:
    """Return a batch's end offsets; if the input is files, with a digest of the batch's file names as ``content``.

    ``text`` is the content of the file with the batch's offsets; ``read`` returns the content of a file of the checkpoint. Raises
    `PipelineError`.
    """
    if "logOffset" not in ends.text and not ends.text.startswith("sha256:"):
        return ends
    before = read(f"offsets/{batch - 1}") if batch else None
    return msgspec.structs.replace(ends, content=files_digest(text, before, read))


def parse_begin(texts: Sequence[str]) -> str:
    """Parse the initial offsets of the sources: each text consists of a zero byte, a version and JSON. Returns the offsets in the
    form of `InputEnds.text`, or "" if a text has another form."""
    sources = _begins_of(texts)
    return _shown(sources) if sources else ""


def begin_offsets(texts: Sequence[str]) -> dict[tuple[str, int], int]:
    """Parse initial offsets, as `parse_begin` does, to offsets by partition. Returns no offsets if a text has another form."""
    return {where: offset for source in _begins_of(texts) for where, offset in offsets_of(source)}


def _begins_of(texts: Sequence[str]) -> list[Any]:
    try:
        sources = [json.loads(text[text.index("{") :]) for text in texts]
    except ValueError:
        return []
    # The initial offsets of a file source have another format than those of a Kafka source.
    are_kafkas = all(isinstance(source, dict) and all(isinstance(p, dict) for p in source.values()) for source in sources)
    return sources if are_kafkas else []


def parse_input(text: str, batch: int) -> InputEnds:
    """Parse the content of a checkpoint's file with a batch's offsets. Raises `PipelineError`."""
    ends = parse_sources(text, batch)
    offsets = {where: offset for source in ends for where, offset in offsets_of(source)}
    return InputEnds(_shown(ends), offsets, planned_ms=_planned_ms(text))


def _planned_ms(text: str) -> int:
    """Return the time at which Spark planned the batch (OffsetSeqMetadata); 0 if unknown."""
    try:
        return int(json.loads(text.splitlines()[1])["batchTimestampMs"])
    except (LookupError, TypeError, ValueError):
        return 0


def parse_sources(text: str, batch: int) -> list[Any]:
    """Parse the batch's offsets of each source that has offsets. Raises `PipelineError`."""
    try:
        return [json.loads(line) for line in text.splitlines()[HEAD_LINES:] if line.strip() not in ("", "-")]
    except ValueError:
        raise PipelineError(f"the checkpoint's offsets of batch {batch} cannot be read") from None


def _shown(sources: list[Any]) -> str:
    shown = json.dumps(sources[0] if len(sources) == 1 else sources, sort_keys=True, separators=(",", ":"))
    return shown if len(shown) <= MAX_SHOWN_BYTES else f"sha256:{hashlib.sha256(shown.encode()).hexdigest()}"
