"""Checks that Spark ran the tasks of a batch only once.

A second attempt of a task would reuse the sequences of the first. The broker would take its batches for retries and ignore them,
although their rows may have another order. A Python task knows its own attempt number (``attemptNumber``), but not the attempt
number of the stage. So the driver checks the stages before it commits the batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S: Final = 20.0
"""Timeout, in seconds, for Spark's status of a stage, which arrives shortly after the end of the stage (LiveListenerBus)."""
_PAUSE_S: Final = 0.002


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
                # Failed tasks do no harm: a repeated attempt or a copy of a slow task raises an error and writes nothing.
                if info.numCompletedTasks() == info.numTasks():
                    break
            if time.monotonic() > deadline:
                raise RuntimeError(f"Spark does not report whether stage {stage} was restarted")
            time.sleep(_PAUSE_S)
