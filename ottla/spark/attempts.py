"""Whether Spark ran the tasks of a batch once.

A second attempt uses sequences that the first has used up. The broker would take what it sends for what the first has sent
already, and Spark may have given it the rows in another order.

A task knows of its own attempts (``attemptNumber``). Those of its stage Spark does not tell Python's tasks, so the driver is asked
for them before anything is committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S: Final = 20.0
"""What Spark tells of its stages follows a little later than they end (LiveListenerBus)."""
_PAUSE_S: Final = 0.002


def check_attempts(spark: SparkSession, stages: Iterable[int]) -> None:
    """Raises RuntimeError unless each stage has ended in its first attempt, whatever the session allows."""
    jvm: Any = spark.sparkContext._jsc
    tracker = jvm.sc().statusTracker()
    deadline = time.monotonic() + TIMEOUT_S
    for stage in stages:
        while True:
            said = tracker.getStageInfo(stage)
            if said.isDefined():
                info = said.get()
                if info.currentAttemptId() > 0:
                    raise RuntimeError(f"stage {stage} was begun again, so the whole of its transaction is aborted")
                # Tasks may have failed: those that Spark tries again, or copies of slow ones, refuse themselves and write nothing.
                if info.numCompletedTasks() == info.numTasks():
                    break
            if time.monotonic() > deadline:
                raise RuntimeError(f"Spark does not tell whether stage {stage} was begun again")
            time.sleep(_PAUSE_S)
