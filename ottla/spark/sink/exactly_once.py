"""Writes one micro-batch in one transaction, unless the batch was committed before. The module does not depend on Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.errors import Fenced, IdExpired, PipelineError
from ottla.spark.progress.input_topics import InputTopics
from ottla.spark.progress.marks import NO_BATCH, Mark
from ottla.spark.sink.metrics import BatchReport, report_of
from ottla.spark.sink.task_writer import Written
from ottla.spark.sink.transaction import TRANSACTION_TIMEOUT_MS


class EpochProducer(Protocol):
    """The producer of a transaction."""

    @property
    def epoch(self) -> int: ...


P = TypeVar("P", bound=EpochProducer)
P_co = TypeVar("P_co", bound=EpochProducer, covariant=True)

Tasks = Callable[[P], list[Written]]
"""Writes a batch with the ``producer`` of a transaction, and returns the written partitions."""


class BatchTransaction(Protocol[P_co]):
    """A transaction for one batch. `transaction.SharedTransaction` is written by Spark's tasks, `driver.DriverTransaction` by the
    driver."""

    @property
    def producer(self) -> P_co: ...

    @property
    def transactional_id(self) -> str: ...

    def begin(self) -> Mark | None: ...

    def mark(self, mark: Mark, ends: Mapping[tuple[str, int], int]) -> None: ...

    def end(self, *, commit: bool) -> None: ...

    def has_expired(self) -> bool: ...

    def close(self) -> None: ...


class ExactlyOnce(Generic[P]):
    """Writes the batches of one stream. ``run`` is the id of this start of the stream, ``timeout_ms`` the transaction timeout."""

    def __init__(
        self,
        transaction: BatchTransaction[P],
        run: str,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        now_s: Callable[[], float] = time.monotonic,
        inputs: InputTopics | None = None,
    ) -> None:
        """Without ``inputs`` the sink does not detect that an input topic was deleted and created again."""
        self._transaction = transaction
        self._inputs = inputs
        self._run = run
        self._timeout_ms = timeout_ms
        self._now_s = now_s
        self._last: Mark | None = None
        self._is_settled = False
        self._done: tuple[Mark, InputEnds] | None = None
        """The last batch that this run knows to be committed, and the end of the batch's input."""

    @property
    def is_settled(self) -> bool:
        """Whether the transactional id has no open transaction, by the coordinator's last response. If False, `start` must be
        called before a batch."""
        return self._is_settled

    def start(self) -> Mark | None:
        """Become the owner of the transactional id, and return the last progress record. Raises `PipelineError`."""
        self._is_settled = False
        self._last = self._transaction.begin()
        self._is_settled = True
        return self._last

    @property
    def last(self) -> Mark | None:
        """The last committed progress record."""
        return self._last

    @property
    def epoch(self) -> int:
        """The current producer epoch."""
        return self._transaction.producer.epoch

    def write(
        self, query: str, batch: int, tasks: Tasks[P], ends: InputEnds, began_s: float | None = None, *, may_skip: bool = False
    ) -> BatchReport:
        """Write a batch in a transaction. If the tasks fail, the transaction is aborted and their error raised. Raises `IdExpired`.

        ``query`` is the id of the stream, which stays the same over restarts. ``ends`` is the end of the batch's input. ``began_s``
        is the start time of a transaction that began before this call. With ``may_skip`` the batch was certainly not written
        before, even if earlier batches have no progress record.
        """
        if not self._is_settled:
            raise RuntimeError("call start() before the next batch: the previous transaction may still be open")
        self._check_inputs(ends)
        mark = Mark(
            query,
            batch,
            self._run,
            ends.text,
            _turn(self._last, query),
            content=ends.content,
            at=ends.at,
            offsets=ends.committed_beside(),
        )
        if _is_replay(self._last, mark, ends.begin, may_skip):
            self._done = (mark, ends)
            return BatchReport(batch, is_replay=True)
        began_s = self._now_s() if began_s is None else began_s
        # Until the coordinator has confirmed the end of the transaction, the sequences must not be used again.
        self._is_settled = False
        try:
            report = self._write(mark, tasks, ends)
        except Fenced as fenced:
            error = why_fenced(fenced, f"batch {batch}", self._now_s() - began_s, self._timeout_ms)
            if error is fenced and self._transaction.has_expired():
                last = self._last
                self._last = self.start() or last
                raise IdExpired(self._transaction.transactional_id) from None
            raise error from None
        self._last = mark
        self._done = (mark, ends)
        return report

    @property
    def done(self) -> tuple[Mark, InputEnds] | None:
        """The batch whose progress record `renew` commits again."""
        return self._done

    def renew(self, tasks: Tasks[P]) -> None:
        """Commit the last progress record again, in a transaction without records, so that neither the group's offsets nor the
        transactional id expire. ``tasks`` must write nothing. `done` must have a batch, and `is_settled` must be true.

        Raises `Fenced`, `MustAbort` and `PipelineError`.
        """
        if self._done is None or not self._is_settled:
            raise RuntimeError("no batch was committed whose progress could be renewed, or start() was not called")
        self._is_settled = False
        try:
            self._write(self._done[0], tasks, self._done[1])
        except Fenced:
            # Another producer owns the id. The next batch must fail as well, and not call `start`, which would fence that producer.
            self._is_settled = True
            raise

    def _write(self, mark: Mark, tasks: Tasks[P], ends: InputEnds) -> BatchReport:
        try:
            written = tasks(self._transaction.producer)
            # An input topic may have been deleted and created again since the check at the start of the batch.
            self._check_inputs(ends)
            began_s = time.perf_counter()
            self._transaction.mark(mark, ends.offsets)
        except Fenced:
            raise
        except BaseException:
            self._end(commit=False)
            raise
        self._end(commit=True)
        return report_of(mark.batch, written, (time.perf_counter() - began_s) * 1000)

    def _check_inputs(self, ends: InputEnds) -> None:
        if self._inputs is not None:
            self._inputs.check(ends.topics())

    def _end(self, *, commit: bool) -> None:
        self._transaction.end(commit=commit)
        self._is_settled = True


def why_fenced(fenced: Fenced, what: str, took_s: float, timeout_ms: int) -> PipelineError:
    """Return the error for a fenced producer. The coordinator returns the same error code to a zombie and after a transaction
    timeout; the elapsed time shows the cause."""
    took_ms = int(took_s * 1_000)
    if took_ms < timeout_ms:
        return fenced
    return PipelineError(
        f"{what} took {took_ms:,} ms, longer than its transaction.timeout.ms of {timeout_ms:,} ms, so its transaction was aborted."
        " Give a larger transaction.timeout.ms, or smaller batches (maxOffsetsPerTrigger)"
    )


def check_query(last: Mark | None, query: str, begin: str = "") -> None:
    """Raise `PipelineError` if another stream committed the last batch, unless this stream begins where the other stream ended."""
    if last is not None and last.batch > NO_BATCH and last.query != query and not _takes_up(last, begin):
        raise PipelineError(
            f"the last batch under this transactional id came from another checkpoint (query {last.query}); continue with that"
            " checkpoint,"
            " or start over with another transactional.id. If that checkpoint is lost, start at ottla.spark.committed_offsets"
        )


def _takes_up(last: Mark, begin: str) -> bool:
    """Whether a stream that begins at ``begin`` continues the stream of the last progress record. Partitions that the last record
    does not contain may begin anywhere."""
    if not (last.input.startswith("{") and begin.startswith("{")):
        return bool(last.input) and begin == last.input
    ended, begins = json.loads(last.input), json.loads(begin)
    if not all(isinstance(where, dict) for where in ended.values()):
        return False
    return all(begins.get(topic, {}).get(index) == at for topic, where in ended.items() for index, at in where.items())


def _turn(last: Mark | None, query: str) -> int:
    """Return `Mark.turn` of this stream: the number of checkpoints that the stream had before the current one."""
    return 0 if last is None else last.turn + (last.query != query)


def _is_replay(last: Mark | None, mark: Mark, begin: str, may_skip: bool) -> bool:
    """Whether a batch was committed before. Raises `PipelineError` if the last progress record does not show this.

    Batches of a stream are numbered from 0, and the sink commits a progress record with each batch. Spark repeats only the last
    batch, with the same input.
    """
    batch = mark.batch
    if last is None or last.batch == NO_BATCH:
        if batch > 0 and not may_skip:
            raise PipelineError(
                f"the checkpoint is at batch {batch}, and it is unknown which batches were committed under this transactional id:"
                " another sink was killed in the batch, or the group was deleted or has expired, or the id was changed. If the"
                " batch were written, records might be duplicated. Start the other sink once more and stop it between two batches,"
                " or give the transactional.id that the checkpoint was created with, or start over with a new checkpoint and new"
                " topics"
            )
        return False
    if last.query != mark.query:
        check_query(last, mark.query, begin if batch == 0 or may_skip else "")
        return False
    if batch > last.batch + 1 and not may_skip:
        raise PipelineError(
            f"the checkpoint is at batch {batch}, but the last batch committed under this transactional id is {last.batch}: the"
            f" group's offset was reset. If the batch were written, records might be duplicated or lost. {_ANEW}"
        )
    if batch < last.batch:
        raise PipelineError(
            f"the checkpoint is at batch {batch}, but batch {last.batch} is committed: an older checkpoint was restored, or"
            " another process runs this stream. If the batch were skipped, records that it has read since would be lost. Restore"
            f" the newer checkpoint, or stop the other process and start again. {_ANEW}"
        )
    if batch == last.batch and last.input and mark.input and last.input != mark.input:
        raise PipelineError(
            f"batch {batch} was committed with its input up to {last.input}, but the checkpoint has it up to {mark.input}: an"
            " older checkpoint was restored. If the batch were skipped, the records between would be lost. Restore the newer"
            f" checkpoint. {_ANEW}"
        )
    if batch == last.batch and last.content and mark.content and last.content != mark.content:
        raise PipelineError(
            f"batch {batch} was committed, but the checkpoint has other files for it: an older checkpoint was restored. If"
            f" the batch were skipped, files that were added since would be lost. Restore the newer checkpoint. {_ANEW}"
        )
    return batch == last.batch


_ANEW = "Otherwise start over with a new checkpoint, a new transactional.id and new topics"
