"""Spark's JVM for tests, which live for seconds: its classes come from an archive, and it does without its second compiler."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyspark

from tools import kafka
from tools.class_archive import class_archive, options

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SPARK_HOME = Path(pyspark.__file__).resolve().parent
ENDED_S = 120
ROWS = 200


def java_home() -> str:
    return str(Path(kafka.java()).resolve().parent.parent)


def plain() -> dict[str, str]:
    """The environment without the archive. All share one Spark home, because an archive depends on paths."""
    return {"JAVA_HOME": java_home(), "SPARK_HOME": str(SPARK_HOME), "JDK_JAVA_OPTIONS": OPTIONS}


@cache
def from_archive() -> str:
    """Options that have a JVM take Spark's classes from the archive, which is made the first time; none where it cannot be."""
    jars = sorted((SPARK_HOME / "jars").glob("*.jar"))
    return " ".join(options(class_archive(kafka.java(), kafka.cache_dir() / "spark-classes", jars, _archive_classes)))


def environment() -> dict[str, str]:
    """Environment for a driver; it halves the processor time until the first batch."""
    return {**plain(), "SPARK_SUBMIT_OPTS": from_archive()}


def of_a_cluster(settings: Mapping[str, str] = {}) -> dict[str, str]:
    """Environment for a cluster's master and workers, and for a driver whose executors they start.

    ``settings`` are those of Spark's that a user has, as `submitted` has them.
    """
    submitting = shlex.join([*submitted(settings), "pyspark-shell"])
    return {**environment(), "SPARK_DAEMON_JAVA_OPTS": from_archive(), "PYSPARK_SUBMIT_ARGS": submitting}


def submitted(settings: Mapping[str, str] = {}) -> list[str]:
    """Flags of spark-submit."""
    given = {"spark.executor.extraJavaOptions": from_archive(), **settings}
    return [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]


def _archive_classes(archive: Path, jvm_options: list[str]) -> None:
    """Create it by a driver that writes a few purchases. On a machine that is too slow, tests run without it."""
    from ottla import Broker
    from ottla.pipeline.generate import Workload
    from tests.pipeline.kills.shopping import Shopping

    with tempfile.TemporaryDirectory() as name:
        archiving = {**plain(), "SPARK_SUBMIT_OPTS": " ".join(jvm_options)}
        with Broker(data_dir=Path(name) / "data") as broker:
            shopping = Shopping(broker.bootstrap, Path(name) / "checkpoint", Workload(ROWS), environment=archiving)
            shopping.open()
            with shopping.start() as driver:
                # The JVM ends after its driver, and writes the archive then. While the broker lived it was seen to wait for ever.
                is_made = _has_ended(driver, ENDED_S) and driver.returncode == 0
                if not is_made:
                    _kill(driver.pid)
        if not is_made or not _has_gone(driver.pid, ENDED_S):
            # The archive only makes tests quicker. What is wrong with a driver, the tests of drivers show.
            _kill(driver.pid)
            archive.unlink(missing_ok=True)


def _has_ended(process: subprocess.Popen[str], within_s: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(within_s)
    return process.returncode is not None


def _has_gone(group: int, within_s: float) -> bool:
    """Whether all processes of a process group have ended."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
