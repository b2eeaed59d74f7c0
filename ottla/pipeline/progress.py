"""How a stream goes, batch by batch: what the sink has reported, with what Spark's own progress says of the same batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from ottla.spark.sink.metrics import BatchReport
from ottla.spark.sink.progress_listener import StreamProgress, progress_of

REPORTS_KEPT: Final = 10_000
"""How many batches' reports a job keeps, the newest: a job that runs for ever has ever more of them. Spark keeps the progress
of a hundred batches, so no older report is asked for."""


class SparksProgress(Protocol):
    """One batch's (StreamingQueryProgress of Spark)."""

    @property
    def batchId(self) -> int: ...  # noqa: N802

    @property
    def json(self) -> str: ...


class Query(Protocol):
    """What is asked of a query of Spark's."""

    @property
    def lastProgress(self) -> SparksProgress | None: ...  # noqa: N802

    @property
    def recentProgress(self) -> Sequence[SparksProgress]: ...  # noqa: N802


class Reports:
    """The sink's reports of one start of a stream, in the order of the batches. ``keep`` is called by the thread of a batch."""

    def __init__(self, dead_letters: str) -> None:
        """``dead_letters`` is the topic of that name."""
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
        """The newest `REPORTS_KEPT` of them."""
        return list(self._reports.values())

    def new(self, query: Query) -> Iterator[StreamProgress]:
        """Of the batches that are done and that nobody was told of.

        All that Spark keeps is up to a hundred batches, which the JVM writes as JSON and Python parses. So one is asked for where
        one is new, and none while the batch in hand has no report: whoever waits takes no time from the batches.
        """
        if self._newest == self._told:
            return
        for progress in self._unseen(query):
            report = self._reports.get(progress.batchId)
            if report is None or report.batch <= self._told:
                continue
            fields = json.loads(progress.json)
            # While Spark waits it reports as well, by the number of the batch that comes next, and that batch may be done by now.
            if "addBatch" in fields["durationMs"]:
                self._told = report.batch
                yield progress_of(report, fields, self._dead_letters)

    def _unseen(self, query: Query) -> Sequence[SparksProgress]:
        last = query.lastProgress
        if last is None or last.batchId <= self._told:
            return ()
        # Spark says how it is while it waits as well, by the number of the batch that comes next.
        is_only_one = last.batchId in self._reports and not self._is_due(last.batchId - 1)
        return (last,) if is_only_one else query.recentProgress

    def _is_due(self, batch: int) -> bool:
        return batch > self._told and batch in self._reports
