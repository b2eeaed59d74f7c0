"""Jobs without a stream end after a signal."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline.running import _until_stopped
from ottla.pipeline.signals import Stopped
from ottla.spark.errors import PipelineError


class Jobs:
    """Replaces Spark's jobs: each job runs until it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Semaphore(0)
        self.begun = 0

    def run(self) -> None:
        self.begun += 1
        self.cancelled.acquire()

    def session(self) -> Any:
        return SimpleNamespace(sparkContext=SimpleNamespace(cancelAllJobs=self.cancelled.release))


def test_spark_job_result_or_error_reaches_the_caller() -> None:
    assert _until_stopped(Jobs().session(), lambda: 7) == 7

    def fail() -> None:
        raise PipelineError("topic is not there")

    with pytest.raises(PipelineError, match="topic is not there"):
        _until_stopped(Jobs().session(), fail)


@pytest.mark.smoke
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_cancels_current_and_later_spark_jobs(number: signal.Signals) -> None:
    jobs = Jobs()

    def work() -> None:
        os.kill(os.getpid(), number)
        jobs.run()
        jobs.run()
        raise PipelineError("the job was cancelled")

    with pytest.raises(Stopped) as stopped:
        _until_stopped(jobs.session(), work)
    assert stopped.value.number is number
    assert jobs.begun == 2


def test_spark_jvm_that_ends_on_the_same_signal_is_not_an_error() -> None:
    """A service manager sends the signal to all processes of the job, so the JVM may end first."""
    asked = threading.Event()

    def cancel() -> None:
        asked.set()
        raise ConnectionRefusedError

    def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.wait(60)
        raise PipelineError("Spark has gone")

    with pytest.raises(Stopped):
        _until_stopped(SimpleNamespace(sparkContext=SimpleNamespace(cancelAllJobs=cancel)), work)
