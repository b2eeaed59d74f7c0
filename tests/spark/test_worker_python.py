"""The choice of the workers' Python, and the error that names the packages that it lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.spark import worker_python
from ottla.spark.errors import PipelineError
from ottla.spark.worker_python import REQUIREMENTS, check_package, check_workers, is_drivers_python, use_drivers_python

ROOT = Path(__file__).parents[2]
BLOCKING = """
import importlib.metadata, sys
blocked = {"backports", "click", "confluent_kafka", "fastavro", "google_re2", "re2", "h11", "kafka", "prometheus_client",
           "rich", "structlog", "uvloop", "yaml"}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"blocked: {name}")
sys.meta_path.insert(0, Blocker())
import ottla.spark.sink.row_writing, ottla.spark.worker, ottla.spark.rows.spark_partitioner, ottla.spark.segments.source
import ottla.spark.sink.datasource, ottla.spark.sink.stream_writer, ottla.spark.schemas.registered
"""


def session(master: str, command: str = "python3") -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=command))


@pytest.mark.parametrize(
    ("master", "chosen", "command", "expected"),
    [
        ("local[2]", None, "python3", sys.executable),
        ("local-cluster[2,1,1024]", None, "python3", sys.executable),
        ("spark://here:7077", None, "python3", "python3"),
        ("local[2]", "/opt/python", "/opt/python", "/opt/python"),
        ("local[2]", None, "/set/by/the/user", "/set/by/the/user"),
    ],
)
def test_local_spark_workers_get_the_drivers_python(
    master: str, chosen: str | None, command: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if chosen is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", chosen)
    spark = session(master, command)
    use_drivers_python(spark)
    assert spark.sparkContext.pythonExec == expected


def test_python_of_another_virtual_environment_is_not_taken_for_the_drivers_python(tmp_path: Path) -> None:
    assert is_drivers_python(sys.executable)
    assert not is_drivers_python(tmp_path / "nowhere")
    other = tmp_path / "python3"
    other.symlink_to(Path(sys.executable).resolve())
    assert not is_drivers_python(other)


def test_missing_worker_packages_are_named_with_the_command_that_installs_them() -> None:
    assert worker_python._asker(REQUIREMENTS)(0) == ""
    said = worker_python._asker(("msgspec", "no_such_a", "no_such_b"))(0)
    assert said.startswith("Spark's workers cannot import no_such_a, no_such_b (")
    assert f"run `{sys.executable} -m pip install no_such_a no_such_b` on each worker, or start" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9", "have another minor version of Python than the"),
        (
            'x\nCaused by: java.io.IOException: Cannot run program "python3": error=2',
            'Cannot run program "python3": error=2.: start',
        ),
        ("ModuleNotFoundError: No module named 'pyspark'", "No module named 'pyspark'"),
    ],
)
def test_error_of_spark_workers_that_cannot_run_names_the_reason(text: str, says: str) -> None:
    assert says.removesuffix(".: start") in str(worker_python._explained(RuntimeError(text)))


def test_sink_tasks_import_only_required_packages() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKING], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_package_that_some_functions_need_is_checked_once_in_an_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_python, "_checked_packages", set())
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(worker_python, "check_workers", lambda spark, *, tasks, packages: asked.append(packages))
    context = SimpleNamespace(master="spark://here:7077", pythonExec="python3", applicationId="app-1", defaultParallelism=4)
    cluster = SimpleNamespace(sparkContext=context, _jsparkSession=None)
    for _ in range(2):
        check_package(cluster, "fastavro")
    assert asked == [("fastavro",)]
    for number in (1, 1, 2):
        check_package(SimpleNamespace(session_id=f"connect-{number}"), "fastavro")
    assert asked == [("fastavro",)] * 3
    # Workers on this machine have the driver's packages, so that no Spark job is needed.
    here = SimpleNamespace(master="local[2]", pythonExec=sys.executable, applicationId="app-2", defaultParallelism=2)
    check_package(SimpleNamespace(sparkContext=here, _jsparkSession=None), "fastavro")
    with pytest.raises(PipelineError, match=r"Spark's workers cannot import no_such_a .* -m pip install no_such_a` on each worker"):
        check_package(SimpleNamespace(sparkContext=here, _jsparkSession=None), "no_such_a")
    assert len(asked) == 3


@pytest.mark.wire
@pytest.mark.full
@pytest.mark.java
def test_packages_of_spark_workers_are_listed_by_a_job(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_workers(spark, tasks=2), "the tests' workers run the driver's interpreter, which has ottla"
    monkeypatch.setattr(worker_python, "REQUIREMENTS", ("msgspec", "no_such_package"))
    with pytest.raises(PipelineError, match="Spark's workers cannot import no_such_package"):
        check_workers(spark, tasks=2)
    monkeypatch.setattr(worker_python, "runs_drivers_python", lambda context: False)
    with pytest.raises(PipelineError, match="Spark's workers cannot import no_such_avro"):
        check_package(spark, "no_such_avro")
