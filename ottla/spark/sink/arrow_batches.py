"""Limits how many rows Spark's JVM sends to a Python worker at once, while the tasks of a sink write.

A worker cannot begin with rows before the JVM has sent all rows of an Arrow batch, so the JVM and the worker wait for each other if
Arrow batches are large, and need memory for them. Small ones cost time for each of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.spark.sink.overriding import Overriding
from ottla.spark.sink.task_writer import Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_BYTES: Final = 2 << 20
"""Size of the rows in an Arrow batch, in bytes after compression by the sink (docs/internals/spark.md)."""
FIRST_ROWS: Final = 5_000
"""Number of rows in an Arrow batch while the size of the rows is unknown."""
MIN_ROWS: Final = 100
SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_overriding = Overriding()


class ArrowBatches:
    """Chooses the number of rows in an Arrow batch by the size of the rows of the stream's last batch."""

    def __init__(self) -> None:
        self._rows = FIRST_ROWS

    def note(self, written: Iterable[Written]) -> None:
        """Record what a batch has written."""
        parts = list(written)
        records, size_bytes = sum(part.records for part in parts), sum(part.bytes for part in parts)
        if size_bytes:
            self._rows = max(MIN_ROWS, TARGET_BYTES * records // size_bytes)

    @contextlib.contextmanager
    def limited(self, session: SparkSession) -> Iterator[None]:
        """Limit the Arrow batches of the jobs that start in the block. The session's own limit is never exceeded.

        Spark reads the limit when a job starts, so other jobs of the session that start meanwhile see the changed setting, too. A
        stream has a session of its own.
        """
        conf, classic = session.conf, cast("Any", session)
        owner = str(classic._jsparkSession.sessionUUID())

        def put(value: str) -> None:
            conf.set(SETTING, value)

        with _overriding.block(owner, lambda: str(conf.get(SETTING)), put, self._lower):
            yield

    def _lower(self, given: str) -> str:
        # A limit of 0 or less means no limit.
        return given if 0 < int(given) <= self._rows else str(self._rows)
