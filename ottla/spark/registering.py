"""What a session needs once for the sink and the sources: the package on its executors, the name ``ottla``, sound settings."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_PACKAGES = ("pipeline", "protocol", "spark", "storage")
TASK_MODULES = ("__init__.py", "invariants.py")
"""What tasks import: sent along, so that workers need our dependencies only."""
_ARCHIVE = "ottla_package.zip"


def register(spark: SparkSession) -> None:
    """Make a session ready, however it was started; again it does no harm.

    ``format("ottla")`` reads from then on, and executors have the package: of what it imports they need msgspec, numpy, pyarrow,
    pandas, cramjam, crc32c, and for the library's other doors what those import.

    Raises `PipelineError` for settings with which the sink cannot keep its promise.
    """
    from ottla.spark.datasource import OttlaSource, OttlaSourceAndSink

    check_settings(spark)
    context = spark.sparkContext
    names = context._python_includes or []
    if _ARCHIVE not in names:
        # Spark gives its packages' jars to Python as well; each task would then read the directories of them all, 0.3 s.
        context._python_includes = [name for name in names if not name.endswith(".jar")]
        # In the folder that goes with Spark's JVM, however this process ends: executors ask the driver for it at any time.
        context.addPyFile(str(package_archive(Path(context._temp_dir))))
    spark.dataSource.register(OttlaSourceAndSink if begins_stages_once(spark) else OttlaSource)


def begins_stages_once(spark: SparkSession) -> bool:
    """In one process no shuffle is lost, which is what Spark begins a stage again for."""
    settings, master = spark.sparkContext.getConf(), str(spark.sparkContext.master)
    # local-cluster[2,1,1024] has executors of their own.
    is_one_process = master == "local" or master.startswith("local[")
    return is_one_process or str(settings.get("spark.stage.maxConsecutiveAttempts")) == "1"


def check_settings(spark: SparkSession) -> None:
    """Raises `PipelineError` where copies of tasks run: each would be refused, and with the fourth Spark gives the batch up."""
    if str(spark.sparkContext.getConf().get("spark.speculation", "false")).lower() == "true":
        raise PipelineError(
            "spark.speculation runs copies of slow tasks, and a task of the sink writes once: start the session without it"
        )


def package_archive(folder: Path) -> Path:
    """What tasks import of the package ``ottla``, as one archive under the same names, for executors that do not have it."""
    package = Path(__file__).resolve().parent.parent
    path = Path(tempfile.mkdtemp(prefix="ottla-package-", dir=folder)) / _ARCHIVE
    with zipfile.ZipFile(path, "w") as archive:
        for name in TASK_MODULES:
            archive.write(package / name, f"ottla/{name}")
        for name in TASK_PACKAGES:
            for source in sorted((package / name).rglob("*.py")):
                archive.write(source, source.relative_to(package.parent))
    return path
