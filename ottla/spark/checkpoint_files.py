"""A checkpoint as a process sees it that has no JVM: by pyarrow's filesystems."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.spark.checkpoint import InputEnds, parse_input, parse_sources, with_content
from ottla.spark.errors import PipelineError


def query_in(checkpoint: str) -> str:
    """The id that the stream keeps over restarts. Raises `PipelineError`."""
    try:
        return str(json.loads(_read(f"{checkpoint}/metadata"))["id"])
    except (ValueError, LookupError, TypeError):
        raise PipelineError(
            f"the checkpoint {checkpoint} does not say which stream's it is: {checkpoint}/metadata cannot be read"
        ) from None


def input_in(checkpoint: str, batch: int) -> InputEnds:
    """Raises `PipelineError`."""
    text = _read(f"{checkpoint}/offsets/{batch}")
    return with_content(parse_input(text, batch), text, batch, lambda name: _read_if_there(f"{checkpoint}/{name}"))


def last_batch_in(checkpoint: str) -> int | None:
    """The last one that Spark has planned, which is before it runs. Raises `PipelineError`."""
    return max((int(name) for name in _names(f"{checkpoint}/offsets") if name.isdecimal()), default=None)


def last_offsets_in(checkpoint: str, topic: str) -> dict[str, Any] | None:
    """Where the last batch ends that Spark has planned, of the source that reads a topic; None before the first.

    Raises `PipelineError`, also where there is no checkpoint: Spark makes it before it asks its sources anything.
    """
    query_in(checkpoint)
    batch = last_batch_in(checkpoint)
    if batch is None:
        return None
    sources = parse_sources(_read(f"{checkpoint}/offsets/{batch}"), batch)
    of_topic = [source for source in sources if isinstance(source, dict) and isinstance(source.get(topic), dict)]
    if not of_topic:
        raise PipelineError(f"the checkpoint {checkpoint} is of no stream that reads {topic!r}")
    merged: dict[str, Any] = {}
    for source in of_topic:
        merged.setdefault(topic, {}).update(source[topic])
        merged |= {name: value for name, value in source.items() if not isinstance(value, dict)}
    return merged


def _names(directory: str) -> list[str]:
    """Raises `PipelineError`."""
    from pyarrow import fs

    with _filesystem(directory) as (filesystem, name):
        return [info.base_name for info in filesystem.get_file_info(fs.FileSelector(name, allow_not_found=True))]


def _read(path: str) -> str:
    """Raises `PipelineError`."""
    with _filesystem(path) as (filesystem, name), filesystem.open_input_stream(name) as stream:
        return bytes(stream.read()).decode()


def _read_if_there(path: str) -> str | None:
    """Raises `PipelineError`."""
    from pyarrow import fs

    with _filesystem(path) as (filesystem, name):
        if filesystem.get_file_info(name).type == fs.FileType.NotFound:
            return None
        with filesystem.open_input_stream(name) as stream:
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
