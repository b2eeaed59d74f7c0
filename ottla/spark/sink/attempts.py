"""Checks that Spark ran the tasks of a batch only once, and keeps it from starting copies of slow tasks for the batch.

A second attempt of a task would reuse the sequences of the first. The broker would ignore the second attempt's batches as retries,
although their rows may have another order. A Python task knows its own attempt number (``attemptNumber``), but not the attempt
number of the stage. So the driver checks the stages before it commits the batch.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.sink.overriding import Overriding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S: Final = 20.0
"""Timeout, in seconds, for Spark's status of a stage, which arrives shortly after the end of the stage (LiveListenerBus)."""
_PAUSE_S: Final = 0.002
_SPECULATION: Final = "spark.speculation"
_DISABLED: Final = "false"
_overriding = Overriding()


@contextlib.contextmanager
def without_copies(spark: SparkSession) -> Iterator[None]:
    """Disable spark.speculation for the jobs that start in the block.

    A copy of a writing task raises an error and writes nothing (`row_writing`), but a job ends after four errors of a task. Spark
    has no setting for one job; it reads the setting of the running context for each set of tasks
    (TaskSetManager.speculationEnabled). Other jobs of the application that start meanwhile get no copies either.
    """
    context: Any = spark.sparkContext
    # SparkContext.getConf would return a copy, in which a change has no effect.
    settings = context._jsc.sc().conf()

    def put(value: str) -> None:
        settings.set(_SPECULATION, value)

    def get() -> str:
        return str(settings.get(_SPECULATION, _DISABLED))

    with _overriding.block(str(context.applicationId), get, put, lambda _: _DISABLED):
        yield


def check_attempts(spark: SparkSession, stages: Iterable[int]) -> None:
    """Raise RuntimeError unless each stage has ended in its first attempt."""
    jvm: Any = spark.sparkContext._jsc
    tracker = jvm.sc().statusTracker()
    deadline = time.monotonic() + TIMEOUT_S
    for stage in stages:
        while True:
            said = tracker.getStageInfo(stage)
            if said.isDefined():
                info = said.get()
                if info.currentAttemptId() > 0:
                    raise RuntimeError(f"stage {stage} was restarted, so its whole transaction is aborted")
                # Ignore failed tasks: a repeated attempt or a copy of a slow task raises an error and writes nothing.
                if info.numCompletedTasks() == info.numTasks():
                    break
            if time.monotonic() > deadline:
                raise RuntimeError(f"Spark does not report whether stage {stage} was restarted")
            time.sleep(_PAUSE_S)
