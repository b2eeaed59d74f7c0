"""Options of the whole test run, and what the conformance scoreboard is made of."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ottla.invariants import CHECKED
from ottla.storage import steps
from tests.support.counting import SCALE, LineMeter, Meter, TimeMeter

# Every state that a test brings about is checked as a whole.
CHECKED.whole_states = True

# One run is as good as the next: a change is refused for what it did. `make search` draws other examples.
# What hypothesis times is the machine, too: how long an example takes says nothing where others are at work.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNTIMED, derandomize=True)
settings.register_profile("searching", UNTIMED, print_blob=True)
settings.load_profile("repeatable")

RESULTS: list[dict[str, Any]] = []
OUTCOMES: dict[str, str] = {}
"""Of all tests, by their ids."""

MAX_ID_LENGTH = 200
BEGIN_LENGTH = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what the brokers answer into the scenario files")
    parser.addoption("--scoreboard", metavar="FILE", help="write which rules' tests passed against which broker")
    parser.addoption("--outcomes", metavar="FILE", help="write each test's outcome (python -m tools.compatibility reads it)")


def pytest_make_parametrize_id(val: object) -> str | None:
    """A long value is named by its beginning and its length.

    pytest puts a test's id into the environment, PYTEST_CURRENT_TEST, and Linux starts no process with a variable above 128 KiB.
    """
    if isinstance(val, str | bytes) and len(val) > MAX_ID_LENGTH:
        begin = val[:BEGIN_LENGTH]
        return f"{begin if isinstance(begin, str) else begin.hex()}... ({len(val)})"
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Says which tests one process runs, where several share the work (``--dist loadgroup``): those that start the same thing.

    A scenario's broker, a Spark session, or else what a file has for all its tests. Those that take minutes are on their own,
    and so are simulated scenarios, which start nothing.
    """
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if params.get("target") == "simulated":
        return
    if "target" in params:
        scenario = params.get("scenario")
        group = f"{params['target']} {'default' if scenario is None else scenario.broker}"
    elif item.get_closest_marker("xdist_group") or _takes_minutes(item):
        return
    elif "spark" in getattr(item, "fixturenames", ()):
        group = "spark"
    else:
        group = f"{item.path.parent.name}/{item.path.stem}"
    item.add_marker(pytest.mark.xdist_group(group))


def _takes_minutes(item: pytest.Item) -> bool:
    return bool(item.get_closest_marker("slow") and item.get_closest_marker("heavy"))


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return item.nodeid if mark is None else str(mark.args[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test carries the rules of docs/rules.md that it is about, and whose answers it asks for.

    What takes minutes comes first, the largest group before the others, then what talks to brokers, which waits for most of its
    time, again by the size of its group, then what takes seconds: nothing else is left to run beside one that begins last. What is
    on its own and short fills the end.
    """
    sizes = Counter(_group(item) for item in items)

    def place(item: pytest.Item) -> tuple[int, int]:
        if _takes_minutes(item):
            return 0, -sizes[_group(item)]
        if item.get_closest_marker("xdist_group") is None:
            return 4, 0
        if item.get_closest_marker("wire"):
            return 1, -sizes[_group(item)]
        return (2 if item.get_closest_marker("heavy") else 3), 0

    items.sort(key=place)
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        scenario = params.get("scenario")
        entries = scenario.entries if scenario is not None else [e for mark in item.iter_markers("entry") for e in mark.args]
        if not entries:
            continue
        item.user_properties.append(("entries", list(entries)))
        item.user_properties.append(("target", params.get("target", "ottla")))
        if scenario is not None:
            item.user_properties.append(("title", scenario.title))
            item.user_properties.append(("differs", scenario.differs))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    properties = dict(report.user_properties)
    if report.when == "call" or report.outcome != "passed":
        OUTCOMES[report.nodeid.partition("@")[0]] = report.outcome
    if "entries" in properties and (report.when == "call" or report.outcome != "passed"):
        RESULTS.append({"test": report.nodeid, "outcome": report.outcome, **properties})


def pytest_sessionfinish(session: pytest.Session) -> None:
    for option, results in (("--scoreboard", RESULTS), ("--outcomes", OUTCOMES)):
        target = session.config.getoption(option)
        # With xdist the workers' reports all come to the controller, which writes alone.
        if target and not hasattr(session.config, "workerinput"):
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).write_text(json.dumps(results))


@pytest.fixture(params=["lines", pytest.param("ms", marks=pytest.mark.nightly)])
def meter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Meter:
    """Measures how long the event loop is held, in lines of Python, and under ``make nightly`` in ms."""
    if request.param == "ms":
        return TimeMeter()
    monkeypatch.setattr(steps, "WORK_A_STEP", steps.WORK_A_STEP // SCALE)
    return LineMeter()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all tests of a process: starting it takes longer than most of them."""
    pytest.importorskip("pyspark")
    from ottla.spark.session import session
    from tests.pipeline import quick_java
    from tools import kafka

    # pyspark.testing brings pandas-on-Spark along, which warns without it.
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in quick_java.environment().items():
            patch.setenv(name, value)
        spark = session("ottla-tests", master="local[2]", ivy_home=kafka.cache_dir() / "ivy")
    yield spark
    spark.stop()
