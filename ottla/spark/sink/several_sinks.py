"""Several sinks in one foreachBatch, which write at the same time.

Each sink has a transaction of its own. If a sink fails, the batch fails. When Spark repeats the batch, sinks that have committed it
write nothing. Rows that must be committed together belong in one sink, with a column ``topic``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ottla.spark.errors import PipelineError
from ottla.spark.sink.foreach_batch import ExactlyOnceSink, sink
from ottla.spark.sink.metrics import SinkMetrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sinks(common: Mapping[str, Any], **each: Mapping[str, Any]) -> SeveralSinks:
    """Return sinks by name. Each sink has the options in ``common`` and its own options, which take precedence. Raises
    `PipelineError` for wrong options, and if two sinks have the same ``transactional.id``."""
    if not each:
        raise PipelineError("sinks needs a name and options for each sink: sinks(common, invoices={...}, audit={...})")
    users: dict[str, str] = {}
    for name, own in each.items():
        transactional_id = str({**common, **own}.get("transactional.id"))
        other = users.setdefault(transactional_id, name)
        if other != name:
            raise PipelineError(
                f"the sinks {other!r} and {name!r} have the same transactional.id, {transactional_id!r}: give each its own"
            )
    return SeveralSinks({name: sink({**common, **own}) for name, own in each.items()})


class SeveralSinks:
    """Sinks by name. Use the object in a ``with`` block, or call `close` after the stream has ended."""

    def __init__(self, by_name: Mapping[str, ExactlyOnceSink]) -> None:
        self._by_name = dict(by_name)

    def __getitem__(self, name: str) -> ExactlyOnceSink:
        return self._by_name[name]

    def __enter__(self) -> SeveralSinks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def metrics(self) -> dict[str, SinkMetrics]:
        return {name: one.metrics for name, one in self._by_name.items()}

    def write(self, batch: int, **frames: DataFrame) -> None:
        """Write one frame to each sink, at the same time, and wait for all. Call this in the function of foreachBatch.

        The error of a sink is raised after the other sinks have ended. Raises `PipelineError` unless each sink gets a frame,
        because a sink without a frame would later report the batch as skipped.
        """
        if frames.keys() != self._by_name.keys():
            raise PipelineError(
                f"write got frames for {', '.join(frames) or 'no sink'}; give a frame for each of {', '.join(self._by_name)} (an"
                " empty frame writes nothing)"
            )
        with ThreadPoolExecutor(len(frames), thread_name_prefix="ottla-sink") as threads:
            ends = [threads.submit(_in_stream(self._by_name[name], frame, batch)) for name, frame in frames.items()]
        errors = [error for end in ends if (error := end.exception()) is not None]
        # Raise a final error first, because Spark's own errors may be a consequence of it.
        for error in sorted(errors, key=lambda error: not isinstance(error, PipelineError)):
            raise error

    def close(self) -> None:
        """Wait for the current batch, and close all connections."""
        for one in self._by_name.values():
            one.close()


def _in_stream(one: ExactlyOnceSink, frame: DataFrame, batch: int) -> Callable[[], None]:
    """Return a function that calls the sink in a thread with the local properties of the stream's thread, by which the sink finds
    the stream, and Spark finds the jobs of a stopped stream."""
    context: Any = frame.sparkSession.sparkContext._jsc
    properties = context.sc().getLocalProperties().clone()

    def write() -> None:
        context.sc().setLocalProperties(properties)
        one(frame, batch)

    return write
