"""A checkpoint as a process sees it that has no JVM: by pyarrow's filesystems."""

from __future__ import annotations

import json
from pathlib import Path

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


def _read(path: str) -> str:
    """Raises `PipelineError`."""
    from pyarrow import fs

    try:
        # Hadoop's names of Amazon's stores.
        uri = path.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)
        filesystem, name = fs.FileSystem.from_uri(uri if "://" in uri or uri.startswith("file:") else str(Path(uri).absolute()))
        with filesystem.open_input_stream(name) as stream:
            return bytes(stream.read()).decode()
    except (OSError, ValueError) as error:
        raise PipelineError(f"the checkpoint's {path} cannot be read ({error}); foreachBatch reads it as Spark does") from None
