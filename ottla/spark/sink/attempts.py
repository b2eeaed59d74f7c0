"""Checks that Spark ran the tasks of a batch once.

A second attempt of a task would reuse the sequences of the first. The broker would treat its batches as retries of the first
attempt's, although Spark may have given it the rows in another order.

A Python task knows the number of its own attempt (``attemptNumber``) but not that of its stage, so the driver checks the stages
before the batch is committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S: Final = 20.0
"""Timeout in seconds. Spark's status of a stage arrives shortly after the stage has ended (LiveListenerBus)."""
_PAUSE_S: Final = 0.002


def check_attempts(spark: SparkSession, stages: Iterable[int]) -> None:
    """Raises RuntimeError unless each stage has ended in its first attempt."""
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
                # Failed tasks are allowed: a repeated attempt, or a copy of a slow task, raises an error and writes nothing.
                if info.numCompletedTasks() == info.numTasks():
                    break
            if time.monotonic() > deadline:
                raise RuntimeError(f"Spark does not report whether stage {stage} was restarted")
            time.sleep(_PAUSE_S)
