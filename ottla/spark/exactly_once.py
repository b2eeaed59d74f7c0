"""One micro-batch, one transaction: whether it is due, who writes it, and how it ends. Nothing here knows of Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

import msgspec

from ottla.spark.checkpoint import InputEnds
from ottla.spark.errors import Fenced, PipelineError
from ottla.spark.marks import Mark
from ottla.spark.transaction import TRANSACTION_TIMEOUT_MS
from ottla.spark.writer import Written

P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)

Tasks = Callable[[P], list[Written]]
"""Writes a batch by what a transaction's ``producer`` is; what was written."""


_NOT_SAID = InputEnds()


class BatchTransaction(Protocol[P_co]):
    """`transaction.Transaction`, which tasks share, or `driver.DriverTransaction`, which is the driver's alone."""

    @property
    def producer(self) -> P_co: ...

    def begin(self) -> Mark | None: ...

    def mark(self, mark: Mark, ends: Mapping[tuple[str, int], int]) -> None: ...

    def end(self, *, commit: bool) -> None: ...


class BatchReport(msgspec.Struct, frozen=True):
    """How a batch went. ``is_replay``: it had been committed before, and nothing was written."""

    batch: int
    records: int = 0
    commit_ms: float = 0.0
    is_replay: bool = False
    by_topic: dict[str, int] = {}


class ExactlyOnce(Generic[P]):
    """The batches of one stream. ``run`` is the id of this start of it, ``timeout_ms`` how long a transaction may last."""

    def __init__(
        self,
        transaction: BatchTransaction[P],
        run: str,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transaction = transaction
        self._run = run
        self._timeout_ms = timeout_ms
        self._now_s = now_s
        self._last: Mark | None = None

    def start(self) -> Mark | None:
        """Take the transactional id over; what was committed last under it. Raises `PipelineError`."""
        self._last = self._transaction.begin()
        return self._last

    def write(self, query: str, batch: int, tasks: Tasks[P], ends: InputEnds = _NOT_SAID) -> BatchReport:
        """Write a batch in a transaction of its own, all of it or nothing. Raises what the tasks raise, once it is aborted.

        ``query`` is the id that the stream keeps over restarts: batches are counted in it. ``ends``: of the batch's input.
        """
        mark = Mark(query, batch, self._run, ends.text)
        if _is_replay(self._last, mark):
            return BatchReport(batch, is_replay=True)
        began_s = self._now_s()
        try:
            report = self._write(mark, tasks, ends)
        except Fenced:
            took_ms = int((self._now_s() - began_s) * 1_000)
            if took_ms >= self._timeout_ms:
                # The coordinator fences whoever takes too long by the same error.
                raise PipelineError(
                    f"batch {batch} took {took_ms:,} ms, and its transaction may last {self._timeout_ms:,} ms: it was aborted."
                    " Give a larger --transaction-timeout-ms, or fewer --batch-records"
                ) from None
            raise
        self._last = mark
        return report

    def _write(self, mark: Mark, tasks: Tasks[P], ends: InputEnds) -> BatchReport:
        try:
            written = tasks(self._transaction.producer)
            began_s = time.perf_counter()
            self._transaction.mark(mark, ends.offsets)
        except Fenced:
            raise
        except BaseException:
            self._transaction.end(commit=False)
            raise
        self._transaction.end(commit=True)
        commit_ms = (time.perf_counter() - began_s) * 1000
        by_topic: dict[str, int] = {}
        for piece in written:
            by_topic[piece.topic] = by_topic.get(piece.topic, 0) + piece.records
        return BatchReport(mark.batch, sum(by_topic.values()), commit_ms, by_topic=by_topic)


def check_query(last: Mark | None, query: str | None) -> None:
    """Raises `PipelineError` where the last batch was another stream's; None is one that has not begun."""
    if last is not None and last.query != query:
        raise PipelineError(
            f"the last batch under this transactional id came from another checkpoint (query {last.query});"
            " go on with that one, or begin anew with a --transactional-id of its own"
        )


def _is_replay(last: Mark | None, mark: Mark) -> bool:
    """Whether a batch was committed before. Raises `PipelineError` where what is known of the last one does not say.

    A stream's batches are counted from 0 on without a gap, and each leaves its mark. Spark repeats none but the last, with the
    input that it had.
    """
    batch = mark.batch
    if last is None:
        if batch > 0:
            raise PipelineError(
                f"the checkpoint is at batch {batch}, and nothing tells which batches were committed under this transactional id:"
                " its group was deleted or has expired, or the id is another. Written now, records may be there twice. Give the"
                " --transactional-id that the checkpoint was made with, or begin anew with a --checkpoint and topics of their own"
            )
        return False
    check_query(last, mark.query)
    if batch > last.batch + 1:
        raise PipelineError(
            f"the checkpoint is at batch {batch}, and the last that was committed under this transactional id is {last.batch}:"
            f" the group's offset was set back. Written now, records may be there twice or not at all. {_ANEW}"
        )
    if batch < last.batch:
        raise PipelineError(
            f"the checkpoint is at batch {batch}, and {last.batch} is committed: the checkpoint was set back. Skipped now, what it"
            f" has read since would be lost. Bring the newer checkpoint back. {_ANEW}"
        )
    if batch == last.batch and last.input and mark.input and last.input != mark.input:
        raise PipelineError(
            f"batch {batch} was committed with its input up to {last.input}, and the checkpoint has it up to {mark.input}: the"
            f" checkpoint was set back. Skipped now, what lies between would be lost. Bring the newer checkpoint back. {_ANEW}"
        )
    return batch == last.batch


_ANEW = "Else begin anew with a --checkpoint, a --transactional-id and topics of their own"
