"""Prepares a Spark session for the sink and the sources, and checks its settings."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.errors import PipelineError
from ottla.spark.worker_python import check_workers, is_connect, runs_drivers_python, use_drivers_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_PACKAGES = ("client", "pipeline", "protocol", "security", "spark", "storage")
TASK_MODULES = ("__init__.py", "addresses.py", "arguments.py", "invariants.py", "random_tokens.py")
"""The modules that tasks import. They are sent to executors, which then need only the package's dependencies."""
_ARCHIVE = "ottla_package.zip"


_checked: set[str] = set()
"""The ids of applications whose workers were checked."""
_installed: dict[str, bool] = {}
"""Whether the workers have ottla installed, by the id of a session of Spark Connect whose workers were checked."""


def register(spark: SparkSession) -> None:
    """Prepare any running session, also one of Spark Connect. A second call has no effect.

    Afterwards ``format("ottla")`` works, and executors have the package. Raises `PipelineError` for settings with which the sink
    cannot write exactly once, and if workers lack a package that tasks import (`worker_python.REQUIREMENTS`).
    """
    prepare_session(spark)
    if hasattr(spark, "dataSource"):
        from ottla.spark.sink.datasource import OttlaSource, OttlaSourceAndSink

        spark.dataSource.register(OttlaSourceAndSink if begins_stages_once(spark) and not copies_tasks(spark) else OttlaSource)


def prepare_session(spark: SparkSession) -> None:
    """Check the session's settings, send the package to executors, and check their Python once in an application. Raises
    `PipelineError`."""
    check_settings(spark)
    if is_connect(spark):
        _send_artifact(spark)
        return
    context: Any = spark.sparkContext
    use_drivers_python(spark)
    if _ARCHIVE not in (context._python_includes or []):
        # Remove the jars of Spark's packages, which Spark also adds to Python's path: each task would read their directories,
        # which takes 0.3 s.
        context._python_includes = [name for name in context._python_includes or [] if not name.endswith(".jar")]
        # Executors may request the archive at any time. Spark's JVM removes this directory when it exits.
        context.addPyFile(str(package_archive(Path(context._temp_dir))))
    if context.applicationId not in _checked:
        if not runs_drivers_python(context):
            check_workers(spark, tasks=context.defaultParallelism)
        _checked.add(context.applicationId)


def _send_artifact(spark: Any) -> None:
    """Send the package to the server of Spark Connect and its workers, once in a session. Workers get it for batches only."""
    if spark.session_id not in _installed:
        # Check the workers before the package is sent: the check would find the sent package.
        is_installed = check_workers(spark, tasks=1)
        with tempfile.TemporaryDirectory() as folder:
            spark.addArtifacts(str(package_archive(Path(folder))), pyfile=True)
        _installed[spark.session_id] = is_installed


def check_stream_on_connect(spark: Any) -> None:
    """Raise `PipelineError` if the workers of a server of Spark Connect have no ottla installed: their tasks of a stream could not
    import it, because Spark Connect gives a session's packages only to the tasks of batches (Spark 4.0 to 4.3)."""
    prepare_session(spark)
    if not _installed[spark.session_id]:
        raise PipelineError(
            "Spark Connect sends no packages to the workers of a stream: run `python -m pip install ottla` with the Python of the"
            " server's workers, or start the server with spark.executorEnv.PYTHONPATH set to a directory that contains ottla"
        )


def begins_stages_once(spark: SparkSession) -> bool:
    """Whether Spark runs each stage only once. Spark repeats a stage if a shuffle is lost, which cannot happen in one process."""
    # In a classic session read the context's setting, because a session may have another value, which has no effect.
    settings: Any = spark.conf if is_connect(spark) else spark.sparkContext.getConf()
    return is_one_process(spark) or str(settings.get("spark.stage.maxConsecutiveAttempts", "")) == "1"


def is_one_process(spark: SparkSession) -> bool:
    """Whether the driver's JVM runs all tasks. A master such as local-cluster[2,1,1024] starts other processes."""
    master = str(spark.conf.get("spark.master", "") if is_connect(spark) else spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


def check_data_sources(spark: SparkSession) -> None:
    """Raise `PipelineError` if Spark has no data sources in Python, as before Spark 4.0."""
    if hasattr(spark, "dataSource"):
        return
    advice = "connect to a server of Spark 4" if is_connect(spark) else "give ottla.spark.sink(options) to foreachBatch"
    raise PipelineError(f"Spark {spark.version} has no data sources in Python, which format('ottla') is: {advice}")


def copies_tasks(spark: SparkSession) -> bool:
    """Whether Spark starts copies of slow tasks (speculation)."""
    # Reading the context's own settings would copy them from the JVM one by one.
    return str(spark.conf.get("spark.speculation", "false")).lower() == "true"


def check_settings(spark: SparkSession) -> None:
    """Raise `PipelineError` if the server of Spark Connect starts copies of slow tasks: each copy would fail, and a batch fails
    after four failures. In a classic session the sink disables copies of its own tasks (`attempts.without_copies`)."""
    if is_connect(spark) and copies_tasks(spark):
        raise PipelineError(
            "spark.speculation runs copies of slow tasks, and a task of the sink writes once: start the server of Spark Connect"
            " without it"
        )


def package_archive(folder: Path) -> Path:
    """Create an archive of the modules of ``ottla`` that tasks import, for executors without the package."""
    package = Path(__file__).resolve().parents[2]
    path = Path(tempfile.mkdtemp(prefix="ottla-package-", dir=folder)) / _ARCHIVE
    with zipfile.ZipFile(path, "w") as archive:
        for name in TASK_MODULES:
            archive.write(package / name, f"ottla/{name}")
        for name in TASK_PACKAGES:
            for source in sorted((package / name).rglob("*.py")):
                archive.write(source, source.relative_to(package.parent))
    return path
