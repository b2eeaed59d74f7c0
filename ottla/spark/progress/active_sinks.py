"""What the sinks of one process know of each other, by cluster and transactional id.

A function given to foreachBatch may make a sink in each call, so these notes belong to the process and not to a sink.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from ottla.spark.errors import PipelineError, cause_of

SinkKey = tuple[str, str]
"""The bootstrap servers and the transactional id of a sink."""


class _Failure(msgspec.Struct, frozen=True):
    batch: int
    reason: str


class ProcessNotes:
    """The notes of a process. Streams run in threads of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writing: dict[SinkKey, str] = {}
        """What is being written."""
        self._written: dict[SinkKey, tuple[str, int]] = {}
        """The last committed batch, with the start of its stream."""
        self._failed: dict[tuple[SinkKey, str], _Failure] = {}
        """The first batch of a stream that has failed and was not written since, by the stream's id."""
        self._given: dict[str, int] = {}
        """The last batch that was given to a sink, by the stream's id."""

    @contextmanager
    def writing(self, sink: SinkKey, what: str) -> Iterator[None]:
        """Inside the block ``what`` is being written as ``sink``. Raises `PipelineError` where another thread is writing: the
        second would fence the producer of the first."""
        mine = f"{what} in thread {threading.current_thread().name!r}"
        with self._lock:
            if sink in self._writing:
                raise PipelineError(
                    f"two sinks of this process write as {sink[1]!r} at the same time: {mine}, and {self._writing[sink]}. Give each"
                    " stream a transactional.id of its own, and write the frames of one transactional.id one after the other"
                )
            self._writing[sink] = mine
        try:
            yield
        finally:
            with self._lock:
                del self._writing[sink]

    def check_first_use(self, sink: SinkKey, run: str, batch: int) -> None:
        """A batch is one transaction, and within one start (``run``) Spark runs no batch twice, so a sink may be used once in a
        batch. Raises `PipelineError` for a second use, which would be taken for a repeated batch."""
        if self._written.get(sink) == (run, batch):
            raise PipelineError(
                f"batch {batch} is committed under {sink[1]!r}, and was given to the sink again by the same function: the second"
                " frame is not written. Give one frame with a column 'topic' (unionByName), or a sink with a transactional.id of"
                " its own for each"
            )

    def note_given(self, query: str, batch: int) -> bool:
        """Note that a sink is given a batch; whether no sink of this process was given it before."""
        is_first = batch > self._given.get(query, -1)
        self._given[query] = batch
        return is_first

    def note_written(self, sink: SinkKey, query: str, run: str, batch: int) -> None:
        self._written[sink] = (run, batch)
        self._failed.pop((sink, query), None)

    def note_failed(self, sink: SinkKey, query: str, batch: int, error: BaseException) -> None:
        reason = cause_of(str(error)) if str(error) else type(error).__name__
        self._failed[sink, query] = _Failure(batch, reason)

    def check_failed(self, sink: SinkKey, query: str, batch: int) -> None:
        """Raises `PipelineError` where an earlier batch has failed: Spark goes on to the next batch only if the function given to
        foreachBatch has not raised the error."""
        failure = self._failed.get((sink, query))
        if failure is not None and failure.batch < batch:
            raise PipelineError(
                f"batch {failure.batch} was not written ({failure.reason}), and the function given to foreachBatch did not raise"
                f" that error, so Spark has noted the batch as done. Let the function raise what the sink raises. To write batch"
                f" {failure.batch} again, delete commits/{failure.batch} and later, and offsets/{failure.batch + 1} and later, from"
                " the checkpoint"
            )


NOTES = ProcessNotes()
