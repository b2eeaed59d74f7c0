"""State that all sinks of a process share, by cluster and transactional id.

A foreachBatch function may create a new sink in each call, so the state belongs to the process and not to a sink.
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
    is_of_second_frame: bool
    """Whether the error is about a second frame of a batch whose first frame this process has committed."""


class ProcessNotes:
    """The state of all sinks of this process. `writing` uses a lock, because each stream has its own thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writing: dict[SinkKey, str] = {}
        """Descriptions of the batches and frames that are being written."""
        self._written: dict[SinkKey, tuple[str, int]] = {}
        """Run id and number of the last committed batch."""
        self._failed: dict[tuple[SinkKey, str], _Failure] = {}
        """The first failed batch that no later attempt has written, by sink and stream id."""
        self._given: dict[str, int] = {}
        """The last batch that was given to a sink, by stream id."""

    @contextmanager
    def writing(self, sink: SinkKey, what: str) -> Iterator[None]:
        """Reserve ``sink`` inside the block; ``what`` describes the batch or frame. Raises `PipelineError` if another thread is
        writing, because that thread's producer would be fenced."""
        mine = f"{what} in thread {threading.current_thread().name!r}"
        with self._lock:
            if sink in self._writing:
                raise PipelineError(
                    f"two sinks of this process use {sink[1]!r} at the same time: {mine}, and {self._writing[sink]}. Give each"
                    " stream its own transactional.id, and write the frames of one transactional.id one after the other"
                )
            self._writing[sink] = mine
        try:
            yield
        finally:
            with self._lock:
                del self._writing[sink]

    def check_first_use(self, sink: SinkKey, run: str, batch: int) -> None:
        """Raise `PipelineError` if the sink has already written this batch since the start of the stream.

        Until a restart Spark runs no batch twice, so a second call means that the foreachBatch function uses the sink twice.
        """
        if self._written.get(sink) == (run, batch):
            raise PipelineError(
                f"batch {batch} is committed under {sink[1]!r}, and was given to the sink again by the same function: the second"
                " frame is not written. Give one frame with a column 'topic' (unionByName), or a sink with a transactional.id of"
                " its own for each frame"
            )

    def note_given(self, query: str, batch: int) -> bool:
        """Record that a batch was given to a sink. Returns whether this was the first time in this process."""
        is_first = batch > self._given.get(query, -1)
        self._given[query] = batch
        return is_first

    def note_written(self, sink: SinkKey, query: str, run: str, batch: int) -> None:
        self._written[sink] = (run, batch)
        self._failed.pop((sink, query), None)

    def note_failed(self, sink: SinkKey, query: str, batch: int, error: BaseException) -> None:
        failure = self._failed.get((sink, query))
        if failure is None or batch <= failure.batch:
            reason = cause_of(str(error)) if str(error) else type(error).__name__
            self._failed[sink, query] = _Failure(batch, reason, self._written.get(sink, ("", -1))[1] == batch)

    def check_failed(self, sink: SinkKey, query: str, skipped: range) -> None:
        """Raise `PipelineError` if an earlier batch has failed: the foreachBatch function has caught the error, so Spark continued.
        ``skipped`` are the batches after the last committed batch (`skipped_batches`). A failed batch that is not among them is
        forgotten, because another process has committed it or Spark repeats it."""
        failure = self._failed.get((sink, query))
        if failure is None:
            return
        if failure.batch not in skipped and not (failure.is_of_second_frame and failure.batch < skipped.stop):
            del self._failed[sink, query]
            return
        raise PipelineError(
            f"batch {failure.batch} was not written ({failure.reason}), and the function given to foreachBatch did not raise"
            f" that error, so Spark has recorded the batch as done. Let the function raise what the sink raises. To write batch"
            f" {failure.batch} again, delete commits/{failure.batch} and later, and offsets/{failure.batch + 1} and later, from"
            " the checkpoint"
        )


NOTES = ProcessNotes()
