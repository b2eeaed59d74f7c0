"""Preparation of a session: what is sent to workers, and how many jobs ask them for their packages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.spark.errors import PipelineError
from ottla.spark.sink import arranging, session_setup
from ottla.spark.sink.session_setup import check_data_sources, check_stream_on_connect, prepare_session


class Conf(dict[str, str]):
    """Settings of a session. An unset setting has its default."""


class Asked:
    """Counts the jobs that ask workers for their packages."""

    def __init__(self, error: PipelineError | None = None) -> None:
        self.count = 0
        self.error = error
        self.is_installed = True

    def __call__(self, spark: Any, *, tasks: int) -> bool:
        self.count += 1
        if self.error is not None:
            raise self.error
        return self.is_installed


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(session_setup, "check_workers", asked)
    monkeypatch.setattr(session_setup, "_checked", set())
    monkeypatch.setattr(session_setup, "_installed", {})
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    return asked


class Context:
    def __init__(self, master: str, folder: Path) -> None:
        self.master, self._temp_dir = master, str(folder)
        self.applicationId, self.pythonExec, self.defaultParallelism = f"app-{master}", "python3", 4
        self._python_includes = ["kafka.jar", "mine.zip"]

    def addPyFile(self, path: str) -> None:
        self._python_includes.append(Path(path).name)


def classic(master: str, folder: Path) -> Any:
    return SimpleNamespace(conf=Conf(), sparkContext=Context(master, folder), _jsparkSession=None)


@pytest.mark.parametrize(("master", "jobs"), [("local[2]", 0), ("spark://here:7077", 1), ("yarn", 1)])
def test_spark_workers_on_other_machines_are_checked_once(master: str, jobs: int, asked: Asked, tmp_path: Path) -> None:
    spark = classic(master, tmp_path)
    for _ in range(3):
        prepare_session(spark)
    assert asked.count == jobs
    assert spark.sparkContext._python_includes == ["mine.zip", "ottla_package.zip"]


def test_spark_workers_without_required_packages_are_refused_at_each_start(asked: Asked, tmp_path: Path) -> None:
    asked.error = PipelineError("Spark's workers cannot import msgspec")
    spark = classic("spark://here:7077", tmp_path)
    for _ in range(2):
        with pytest.raises(PipelineError, match="cannot import msgspec"):
            prepare_session(spark)
    assert asked.count == 2


def test_ottla_package_is_sent_once_to_a_spark_connect_server(asked: Asked) -> None:
    sent: list[str] = []

    def add(path: str, *, pyfile: bool) -> None:
        assert pyfile
        assert Path(path).stat().st_size > 0
        sent.append(Path(path).name)

    spark: Any = SimpleNamespace(conf=Conf(), session_id="s-1", addArtifacts=add)
    for _ in range(2):
        prepare_session(spark)
    assert sent == ["ottla_package.zip"]
    assert asked.count == 1


def test_stream_on_spark_connect_is_refused_while_ottla_is_not_installed_on_the_workers(asked: Asked) -> None:
    asked.is_installed = False
    spark: Any = SimpleNamespace(conf=Conf(), session_id="s-1", addArtifacts=lambda path, *, pyfile: None)
    for _ in range(2):
        with pytest.raises(PipelineError, match="Spark Connect sends no packages to the workers of a stream: run `python -m pip"):
            check_stream_on_connect(spark)
    # The session has the package now, so a second job of the session would find it in its tasks.
    assert asked.count == 1
    asked.is_installed, spark.session_id = True, "s-2"
    check_stream_on_connect(spark)


@pytest.mark.parametrize("is_streaming", [True, False], ids=["stream", "batch"])
def test_only_a_stream_on_spark_connect_needs_ottla_on_the_workers(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, is_streaming: bool
) -> None:
    asked.is_installed = False
    monkeypatch.setattr(arranging, "cluster_client", lambda connecting: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(arranging, "partition_counts", lambda cluster, topics: {"out": 1})
    monkeypatch.setattr(arranging, "_on_connect", lambda frame, topic, counts: "arranged")
    spark: Any = SimpleNamespace(conf=Conf(), session_id="s-1", addArtifacts=lambda path, *, pyfile: None, dataSource=object())
    frame: Any = SimpleNamespace(sparkSession=spark, isStreaming=is_streaming)
    options = {"kafka.bootstrap.servers": "here:9092", "transactional.id": "t", "topic": "out"}
    if is_streaming:
        with pytest.raises(PipelineError, match="Spark Connect sends no packages to the workers of a stream"):
            arranging.arranged(frame, options)
    else:
        assert arranging.arranged(frame, options) == "arranged"  # type: ignore[comparison-overlap]


@pytest.mark.parametrize(
    ("session", "advice"),
    [
        (SimpleNamespace(version="3.5.9"), "connect to a server of Spark 4"),
        (SimpleNamespace(version="3.5.9", _jsparkSession=None), r"give ottla\.spark\.sink\(options\) to foreachBatch"),
    ],
    ids=["connect", "classic"],
)
def test_spark_3_refuses_the_ottla_format_and_names_the_alternative(session: Any, advice: str) -> None:
    with pytest.raises(PipelineError, match=rf"^Spark 3\.5\.9 has no data sources in Python, .*: {advice}$"):
        check_data_sources(session)
    session.dataSource = object()
    check_data_sources(session)
