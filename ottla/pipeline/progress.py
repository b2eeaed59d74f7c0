"""Combines the sink's report of a batch with Spark's progress of the batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from ottla.spark.sink.metrics import BatchReport
from ottla.spark.sink.progress_listener import StreamProgress, progress_of

REPORTS_KEPT: Final = 10_000
"""Maximum number of reports that a job keeps; older reports are dropped. Spark keeps the progress of a hundred batches."""


class SparksProgress(Protocol):
    """Spark's progress of one batch (StreamingQueryProgress)."""

    @property
    def batchId(self) -> int: ...  # noqa: N802

    @property
    def json(self) -> str: ...


class Query(Protocol):
    """The attributes of Spark's StreamingQuery that this module uses."""

    @property
    def lastProgress(self) -> SparksProgress | None: ...  # noqa: N802

    @property
    def recentProgress(self) -> Sequence[SparksProgress]: ...  # noqa: N802


class Reports:
    """The sink's reports of one run of a stream, in the order of the batches. The thread that runs a batch calls ``keep``."""

    def __init__(self, dead_letters: str) -> None:
        """``dead_letters`` is the name of the dead letter topic."""
        self._dead_letters = dead_letters
        self._reports: dict[int, BatchReport] = {}
        self._newest = -1
        self._told = -1

    def keep(self, report: BatchReport) -> None:
        self._reports[report.batch] = report
        self._newest = report.batch
        if len(self._reports) > REPORTS_KEPT:
            del self._reports[next(iter(self._reports))]

    def all(self) -> list[BatchReport]:
        """Return the newest `REPORTS_KEPT` reports."""
        return list(self._reports.values())

    def new(self, query: Query) -> Iterator[StreamProgress]:
        """Yield the progress of finished batches that were not yielded before.

        If possible, only the last batch's progress is read: reading all progress slows down the stream, because the JVM writes up
        to a hundred batches as JSON.
        """
        if self._newest == self._told:
            return
        for progress in self._unseen(query):
            report = self._reports.get(progress.batchId)
            if report is None or report.batch <= self._told:
                continue
            fields = json.loads(progress.json)
            # Between batches Spark reports progress under the number of the next batch, but without "addBatch".
            if "addBatch" in fields["durationMs"]:
                self._told = report.batch
                yield progress_of(report, fields, self._dead_letters)

    def _unseen(self, query: Query) -> Sequence[SparksProgress]:
        last = query.lastProgress
        if last is None or last.batchId <= self._told:
            return ()
        is_only_one = last.batchId in self._reports and not self._is_due(last.batchId - 1)
        return (last,) if is_only_one else query.recentProgress

    def _is_due(self, batch: int) -> bool:
        return batch > self._told and batch in self._reports
