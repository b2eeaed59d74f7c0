"""Faster start of Spark's JVM for tests: classes come from a class-data archive, and the optimising compiler C2 is disabled."""

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
    """Return an environment without the class archive. All tests share one SPARK_HOME, because the archive depends on paths."""
    return {"JAVA_HOME": java_home(), "SPARK_HOME": str(SPARK_HOME), "JDK_JAVA_OPTIONS": OPTIONS}


@cache
def from_archive() -> str:
    """Return JVM options that load Spark's classes from the archive, or an empty string if no archive can be created.

    The first call creates the archive.
    """
    jars = sorted((SPARK_HOME / "jars").glob("*.jar"))
    return " ".join(options(class_archive(kafka.java(), kafka.cache_dir() / "spark-classes", jars, _archive_classes)))


def environment() -> dict[str, str]:
    """Return environment variables for a driver. The class archive halves the driver's processor time until the first batch."""
    return {**plain(), "SPARK_SUBMIT_OPTS": from_archive()}


def of_a_cluster(settings: Mapping[str, str] = {}) -> dict[str, str]:
    """Return environment variables for a Spark cluster's master and workers, and for a driver whose executors they start.

    ``settings`` are additional Spark settings, see `submitted`.
    """
    submitting = shlex.join([*submitted(settings), "pyspark-shell"])
    return {**environment(), "SPARK_DAEMON_JAVA_OPTS": from_archive(), "PYSPARK_SUBMIT_ARGS": submitting}


def submitted(settings: Mapping[str, str] = {}) -> list[str]:
    """Return flags of spark-submit: the archive's options for executors, and the Spark settings in ``settings``."""
    given = {"spark.executor.extraJavaOptions": from_archive(), **settings}
    return [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]


def _archive_classes(archive: Path, jvm_options: list[str]) -> None:
    """Create the archive by running a driver that writes a few purchases.

    If this takes longer than `ENDED_S`, tests run without the archive.
    """
    from ottla import Broker
    from ottla.pipeline.generate import Workload
    from tests.pipeline.kills.shopping import Shopping

    with tempfile.TemporaryDirectory() as name:
        archiving = {**plain(), "SPARK_SUBMIT_OPTS": " ".join(jvm_options)}
        with Broker(data_dir=Path(name) / "data") as broker:
            shopping = Shopping(broker.bootstrap, Path(name) / "checkpoint", Workload(ROWS), environment=archiving)
            shopping.open()
            with shopping.start() as driver:
                # The JVM writes the archive when it exits, after the Python driver. Its exit may hang while the broker runs, so
                # `_has_gone` waits for it after the broker has stopped.
                is_made = _has_ended(driver, ENDED_S) and driver.returncode == 0
                if not is_made:
                    _kill(driver.pid)
        if not is_made or not _has_gone(driver.pid, ENDED_S):
            # Not an error: tests pass without the archive, only slower, and a broken driver fails its own tests.
            _kill(driver.pid)
            archive.unlink(missing_ok=True)


def _has_ended(process: subprocess.Popen[str], within_s: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(within_s)
    return process.returncode is not None


def _has_gone(group: int, within_s: float) -> bool:
    """Whether all processes of a process group have ended, after a wait of at most ``within_s`` seconds."""
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
