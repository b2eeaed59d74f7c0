"""Reads a checkpoint in a process without a JVM, with pyarrow's file systems."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.spark.checkpoint.checkpoint import InputEnds, parse_input, parse_sources, with_content
from ottla.spark.errors import PipelineError


def query_in(checkpoint: str) -> str:
    """Read the id of the stream, which restarts do not change. Raises `PipelineError`."""
    try:
        return str(json.loads(_read(f"{checkpoint}/metadata"))["id"])
    except (ValueError, LookupError, TypeError):
        raise PipelineError(
            f"the checkpoint {checkpoint} has no readable stream id: {checkpoint}/metadata cannot be read"
        ) from None


def input_in(checkpoint: str, batch: int) -> InputEnds:
    """Read the offsets at which a batch's input ends. Raises `PipelineError`."""
    text = _read(f"{checkpoint}/offsets/{batch}")
    return with_content(parse_input(text, batch), text, batch, lambda name: _read_if_there(f"{checkpoint}/{name}"))


def last_batch_in(checkpoint: str) -> int | None:
    """Return the number of the last batch that Spark has planned; the batch may not have run yet. None before the first batch.
    Raises `PipelineError`."""
    return max((int(name) for name in _names(f"{checkpoint}/offsets") if name.isdecimal()), default=None)


def last_offsets_in(checkpoint: str, topic: str) -> dict[str, Any] | None:
    """Return the offsets at which the last planned batch ends in the source that reads ``topic``; None before the first batch.

    Raises `PipelineError`, also for a missing checkpoint, because Spark creates the checkpoint before it calls its sources.
    """
    query_in(checkpoint)
    batch = last_batch_in(checkpoint)
    if batch is None:
        return None
    sources = parse_sources(_read(f"{checkpoint}/offsets/{batch}"), batch)
    of_topic = [source for source in sources if isinstance(source, dict) and isinstance(source.get(topic), dict)]
    if not of_topic:
        raise PipelineError(f"the checkpoint {checkpoint} belongs to a stream that does not read {topic!r}")
    merged: dict[str, Any] = {}
    for source in of_topic:
        merged.setdefault(topic, {}).update(source[topic])
        merged |= {name: value for name, value in source.items() if not isinstance(value, dict)}
    return merged


def _names(directory: str) -> list[str]:
    from pyarrow import fs

    with _filesystem(directory) as (filesystem, name):
        return [info.base_name for info in filesystem.get_file_info(fs.FileSelector(name, allow_not_found=True))]


def _read(path: str) -> str:
    with _filesystem(path) as (filesystem, name), filesystem.open_input_stream(name) as stream:
        return bytes(stream.read()).decode()


def _read_if_there(path: str) -> str | None:
    from pyarrow import fs

    with _filesystem(path) as (filesystem, name):
        if filesystem.get_file_info(name).type == fs.FileType.NotFound:
            return None
        with filesystem.open_input_stream(name) as stream:
            return bytes(stream.read()).decode()


@contextmanager
def _filesystem(path: str) -> Iterator[tuple[Any, str]]:
    """Yield the pyarrow file system of a path, and the path on it. Errors inside the block become `PipelineError`."""
    from pyarrow import fs

    try:
        # s3a and s3n are Hadoop's names for Amazon S3.
        uri = path.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)
        yield fs.FileSystem.from_uri(uri if "://" in uri or uri.startswith("file:") else str(Path(uri).absolute()))
    except (OSError, ValueError) as error:
        raise PipelineError(f"the checkpoint's {path} cannot be read ({error}); foreachBatch reads it as Spark does") from None
