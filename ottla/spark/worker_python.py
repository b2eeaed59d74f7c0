"""Checks and chooses the Python of Spark's workers before a stream starts, so that no task fails with an import error.

Spark starts its workers with ``PYSPARK_PYTHON``, or else with the first ``python3`` on the path. On one machine the driver's own
interpreter is right: it has the packages that the library imports. On other machines a short Spark job checks the workers'
packages.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIREMENTS: Final = ("aiokafka", "cramjam", "crc32c", "msgspec", "numpy", "pandas", "pyarrow")
"""The packages that tasks import besides ottla, which `sink.session_setup` sends to them. Their modules have the same names."""
AVRO_PACKAGE: Final = "fastavro"
"""The package that tasks import for Avro values of a schema registry, besides `REQUIREMENTS`."""
PROTOBUF_PACKAGE: Final = "protobuf"
"""The package, whose module is google.protobuf, that tasks import for Protobuf values of a schema registry."""
MAX_ASKED: Final = 16
"""Maximum number of tasks of the job that checks the workers' packages."""
VARIABLE: Final = "PYSPARK_PYTHON"
_checked_packages: set[tuple[str, str]] = set()
"""The packages that only some functions need, with the id of the application or session whose workers were checked."""
_SPARKS_CHOICE: Final = "python3"
_OTHER_VERSION: Final = ("PYTHON_VERSION_MISMATCH", "has different version")
_NOT_STARTED: Final = "Cannot run program"


def use_drivers_python(spark: SparkSession) -> None:
    """Let workers on this machine use the driver's interpreter, unless the user has chosen another."""
    context = spark.sparkContext
    if VARIABLE not in os.environ and context.pythonExec == _SPARKS_CHOICE and str(context.master).startswith("local"):
        context.pythonExec = sys.executable


def check_workers(spark: SparkSession, *, tasks: int, packages: Iterable[str] = ()) -> bool:
    """Check the workers' Python by a Spark job of a few ``tasks``. Returns whether ottla is installed where the tasks ran.

    Raises `PipelineError`, which says what to change, if workers have another version of Python than the driver, or lack one of
    ``packages``, by default of `REQUIREMENTS`.
    """
    from pyspark.sql import functions as f

    count = max(1, min(tasks, MAX_ASKED))
    numbers = spark.range(0, count, 1, count)
    try:
        lacks, has_ottla = f.udf(_asker(packages or REQUIREMENTS), "string")("id"), f.udf(_finder("ottla"), "boolean")("id")
        answers = numbers.select(lacks.alias("lacks"), has_ottla.alias("has_ottla")).distinct().collect()
    except Exception as error:
        raise _explained(error) from error
    for answer in answers:
        if answer.lacks:
            raise PipelineError(answer.lacks)
    return all(answer.has_ottla for answer in answers)


def check_package(spark: Any, package: str) -> None:
    """Raise `PipelineError` if the workers cannot import a package that only some functions need. The workers are checked once in
    an application, or in a session of Spark Connect."""
    context = None if is_connect(spark) else spark.sparkContext
    key = (package, spark.session_id if context is None else context.applicationId)
    if key in _checked_packages:
        return
    if context is not None:
        use_drivers_python(spark)
    if context is None or not runs_drivers_python(context):
        check_workers(spark, tasks=1 if context is None else context.defaultParallelism, packages=(package,))
    elif missing := _asker((package,))(0):
        raise PipelineError(missing)
    _checked_packages.add(key)


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect, which has no JVM in this process."""
    return not hasattr(spark, "_jsparkSession")


def runs_drivers_python(context: Any) -> bool:
    """Whether all workers run on this machine with the driver's interpreter."""
    return str(context.master).startswith("local") and is_drivers_python(context.pythonExec)


def missing_package(package: str) -> PipelineError:
    """Return the error of a task that cannot import a package, which not every stream needs."""
    return PipelineError(
        f"Spark's workers cannot import {package} ({sys.executable} on {platform.node()}): run `{sys.executable} -m pip install"
        f" {package}` on each worker, or start the session with {VARIABLE} set to a Python that has it"
    )


def _finder(package: str) -> Callable[[int], bool]:
    """Return a function that returns whether a package is installed for a worker. An archive that a session has sent does not
    count. Spark pickles the function by value, like that of `_asker`."""

    def is_found(_: int) -> bool:
        from importlib.util import find_spec

        spec = find_spec(package)
        return spec is not None and ".zip/" not in (spec.origin or "")

    return is_found


def _asker(requirements: Iterable[str]) -> Callable[[int], str]:
    """Return a function that describes what a worker lacks. Spark pickles an inner function by value, so that the worker need not
    import ottla for it."""
    wanted = tuple(requirements)
    variable = VARIABLE

    def lacks(_: int) -> str:
        import platform
        import sys
        from importlib.util import find_spec

        missing = [name for name in wanted if find_spec(name) is None]
        if not missing:
            return ""
        place = f"{sys.executable} on {platform.node()}"
        return (
            f"Spark's workers cannot import {', '.join(missing)} ({place}): run `{sys.executable} -m pip install"
            f" {' '.join(missing)}` on each worker, or start the session with {variable} set to a Python that has them"
        )

    return lacks


def _explained(error: Exception) -> PipelineError:
    """Return the error for workers that cannot run Python."""
    text, mine = str(error), ".".join(map(str, sys.version_info[:2]))
    advice = f"start the session with {VARIABLE} set to a Python {mine} that has {', '.join(REQUIREMENTS)}"
    if any(word in text for word in _OTHER_VERSION):
        return PipelineError(f"Spark's workers have another minor version of Python than the driver, which has {mine}: {advice}")
    lines = [line.strip() for line in text.splitlines() if _NOT_STARTED in line or "Error: " in line]
    return PipelineError(f"Spark's workers cannot run Python ({(lines or [type(error).__name__])[-1][:200]}): {advice}")


def is_drivers_python(command: Any) -> bool:
    """Whether a worker that is started with ``command`` on this machine runs the driver's interpreter."""
    found = shutil.which(str(command))
    if found is None:
        return False
    # A link to the same binary may belong to another virtual environment, which has other packages.
    mine = Path(sys.executable)
    return Path(found).resolve() == mine.resolve() and Path(found).absolute().parent == mine.absolute().parent
