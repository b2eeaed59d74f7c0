"""A checkpoint as a process sees it that has no JVM: by pyarrow's filesystems."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ottla.spark.checkpoint import InputEnds, parse_input
from ottla.spark.errors import PipelineError


def query_in(checkpoint: str) -> str:
    """The id that the stream keeps over restarts. Raises `PipelineError`."""
    try:
        return str(json.loads(_read(f"{checkpoint}/metadata"))["id"])
    except (ValueError, LookupError, TypeError):
        raise PipelineError(
            f"the checkpoint {checkpoint} does not say which stream's it is: {checkpoint}/metadata cannot be read"
        ) from None


def input_in(checkpoint: str, batch: int, mark_topic: str | None) -> InputEnds:
    """Raises `PipelineError`, also for a stream that reads no topic of Kafka's and is not told where its mark stands."""
    ends = parse_input(_read(f"{checkpoint}/offsets/{batch}"), batch)
    if ends.offsets:
        return ends
    if mark_topic is None:
        raise PipelineError("the stream reads no topic of Kafka's: say by mark.topic with which topic's offsets its mark stands")
    return msgspec.structs.replace(ends, offsets={(mark_topic, 0): batch})


def last_batch_in(checkpoint: str) -> int | None:
    """The last one that Spark has planned, which is before it runs. Raises `PipelineError`."""
    return max((int(name) for name in _names(f"{checkpoint}/offsets") if name.isdecimal()), default=None)


def last_offsets_in(checkpoint: str, topic: str) -> dict[str, dict[str, int]] | None:
    """Where the last batch ends that Spark has planned, of the source that reads a topic; None before the first.

    Raises `PipelineError`, also where there is no checkpoint: Spark makes it before it asks its sources anything.
    """
    query_in(checkpoint)
    batch = last_batch_in(checkpoint)
    if batch is None:
        return None
    ends: dict[str, dict[str, int]] = {}
    for (name, index), offset in parse_input(_read(f"{checkpoint}/offsets/{batch}"), batch).offsets.items():
        ends.setdefault(name, {})[str(index)] = offset
    if topic not in ends:
        raise PipelineError(f"the checkpoint {checkpoint} is of no stream that reads {topic!r}")
    return {topic: ends[topic]}


def _names(directory: str) -> list[str]:
    """Raises `PipelineError`."""
    from pyarrow import fs

    with _filesystem(directory) as (filesystem, name):
        return [info.base_name for info in filesystem.get_file_info(fs.FileSelector(name, allow_not_found=True))]


def _read(path: str) -> str:
    """Raises `PipelineError`."""
    with _filesystem(path) as (filesystem, name), filesystem.open_input_stream(name) as stream:
        return bytes(stream.read()).decode()


@contextmanager
def _filesystem(path: str) -> Iterator[tuple[Any, str]]:
    """One of pyarrow's, and the path on it. Raises `PipelineError` for whatever goes wrong with them within."""
    from pyarrow import fs

    try:
        # Hadoop's names of Amazon's stores.
        uri = path.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)
        yield fs.FileSystem.from_uri(uri if "://" in uri or uri.startswith("file:") else str(Path(uri).absolute()))
    except (OSError, ValueError) as error:
        raise PipelineError(f"the checkpoint's {path} cannot be read ({error}); foreachBatch reads it as Spark does") from None
