"""Detection of stages that Spark ran more than once, from Spark's status tracker, whose information is delayed."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.spark.errors import PipelineError
from ottla.spark.sink import attempts
from ottla.spark.sink.attempts import check_attempts, without_copies
from ottla.spark.sink.session_setup import begins_stages_once, check_settings
from ottla.spark.sink.task_writer import Written, check_alone


class Tracker:
    """Returns the given states in turn, and repeats the final state: attempt, completed tasks, number of tasks."""

    def __init__(self, *said: tuple[int, int, int] | None) -> None:
        self.said = list(said)

    def getStageInfo(self, stage: int) -> Any:
        now = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if now is None:
            return SimpleNamespace(isDefined=lambda: False)
        attempt, done, tasks = now
        info = SimpleNamespace(currentAttemptId=lambda: attempt, numCompletedTasks=lambda: done, numTasks=lambda: tasks)
        return SimpleNamespace(isDefined=lambda: True, get=lambda: info)


def spark(tracker: Tracker) -> Any:
    return SimpleNamespace(
        sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: tracker)))
    )


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_PAUSE_S", 0.0)


def test_sink_accepts_a_stage_that_ran_once() -> None:
    check_attempts(spark(Tracker((0, 2, 2))), [3])
    check_attempts(spark(Tracker(None, (0, 0, 2), (0, 1, 2), (0, 2, 2))), [3])
    check_attempts(spark(Tracker(None)), [])


@pytest.mark.parametrize("said", [[(1, 0, 2)], [(0, 1, 2), (1, 1, 1)], [None, (2, 2, 2)]])
def test_sink_refuses_a_repeated_stage(said: list[tuple[int, int, int] | None]) -> None:
    with pytest.raises(RuntimeError, match="stage 3 was restarted"):
        check_attempts(spark(Tracker(*said)), [3])


@pytest.mark.parametrize("said", [None, (0, 1, 2)])
def test_sink_refuses_unknown_stage_attempts(said: tuple[int, int, int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "TIMEOUT_S", 0.0)
    with pytest.raises(RuntimeError, match="Spark does not report whether stage 3 was restarted"):
        check_attempts(spark(Tracker(said)), [3])


@pytest.mark.parametrize(
    ("master", "attempts", "is_once"),
    [
        ("local", None, True),
        ("local[2]", None, True),
        ("local[*,4]", None, True),
        ("local-cluster[2,1,1024]", None, False),
        ("local-cluster[2,1,1024]", "1", True),
        ("spark://here:7077", None, False),
        ("spark://here:7077", "4", False),
        ("spark://here:7077", "1", True),
    ],
)
def test_spark_masters_without_stage_retries_are_recognized(master: str, attempts: str | None, is_once: bool) -> None:
    """A master within the driver's process loses no shuffle files. local-cluster has separate executors."""
    settings = {"spark.stage.maxConsecutiveAttempts": attempts}
    context = SimpleNamespace(master=master, getConf=lambda: settings)
    classic: Any = SimpleNamespace(sparkContext=context, _jsparkSession=None)
    assert begins_stages_once(classic) is is_once
    connect: Any = SimpleNamespace(conf={**settings, "spark.master": master})
    assert begins_stages_once(connect) is is_once


@pytest.mark.parametrize(("setting", "is_refused"), [("true", True), ("TRUE", True), ("false", False), (None, False)])
def test_sink_refuses_a_spark_connect_server_with_speculation(setting: str | None, is_refused: bool) -> None:
    """Each copy of a task would fail, and after four failures Spark would abort the batch. Only a classic session can disable
    copies for the tasks of the sink."""
    conf = SimpleNamespace(get=lambda name, default: default if setting is None else setting)
    connect: Any = SimpleNamespace(conf=conf)
    with pytest.raises(PipelineError, match=r"spark\.speculation runs copies") if is_refused else nullcontext():
        check_settings(connect)
    classic: Any = SimpleNamespace(conf=conf, _jsparkSession=None)
    check_settings(classic)


class LiveConf(dict[str, str]):
    """The Spark settings of a running context."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


def running(conf: LiveConf, application: str = "app") -> Any:
    java = SimpleNamespace(sc=lambda: SimpleNamespace(conf=lambda: conf))
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=java, applicationId=application))


def test_speculative_task_copies_are_disabled_while_any_sink_writes() -> None:
    conf, other = LiveConf({"spark.speculation": "true"}), LiveConf({"spark.speculation": "true"})
    with pytest.raises(ValueError, match="a failed job"), without_copies(running(conf)):
        with without_copies(running(conf)):
            assert conf["spark.speculation"] == "false"
        assert conf["spark.speculation"] == "false", "another sink still writes"
        assert other["spark.speculation"] == "true"
        raise ValueError("a failed job")
    assert conf["spark.speculation"] == "true"


@pytest.mark.parametrize("settings", [{}, {"spark.speculation": "false"}])
def test_speculative_task_copies_disabled_by_the_user_stay_disabled(settings: dict[str, str]) -> None:
    conf = LiveConf(settings)
    with without_copies(running(conf, "quiet")):
        pass
    assert conf == settings


def test_sink_refuses_two_tasks_for_one_partition() -> None:
    written = [Written("a", 0, 5, 50), Written("a", 1, 5, 50), Written("b", 0, 5, 50)]
    check_alone(written, "advice")
    with pytest.raises(PipelineError, match="two tasks wrote to a-1, so the batch is aborted: advice"):
        check_alone([*written, Written("a", 1, 1, 10)], "advice")
