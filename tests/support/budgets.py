"""Time budgets for tests that sample a large space: crash states, mutants, kills, fuzzing, simulations.

``@pytest.mark.budget("mutants", seconds=90, floor=10)`` limits the tests of the budget "mutants" to 90 seconds together in a run
with ``--budgets``, but at least 10 of them run, however slow the machine is. The remaining tests are skipped; pytest-randomly
orders the tests by the seed of the run, so each run skips other tests. `BUDGETS` gives whole files such a budget. A test that loops
over cases gets as many cases as its budget allows from the fixture `within_budget`. Without ``--budgets``, as in ``make nightly``
or when a test is named on the command line, everything runs.
"""

from __future__ import annotations

import random
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import pytest

from tools.test_run import LEFT_TO_NIGHTLY

Case = TypeVar("Case")


class Sample(NamedTuple):
    name: str
    pattern: str
    size: int


HAS_RUN = pytest.StashKey[bool]()
BEGUN, SKIPPED = "begun", "skipped"
"""Lines that tests append to the file of their budget; see `is_spent`."""


class Budget(NamedTuple):
    name: str
    pattern: str
    """Regular expression that matches the beginning of node ids, without the leading ``tests/``."""
    seconds: int
    floor: int


BUDGETS = (
    Budget(
        "replication on Apache Kafka",
        r"scenarios/test_several\.py::test_cluster_responses_equal_those_of_the_transcript\[kafka-",
        35,
        4,
    ),
    Budget(
        "replication on ottla", r"scenarios/test_several\.py::test_cluster_responses_equal_those_of_the_transcript\[ottla-", 25, 8
    ),
    Budget("reference model", r"scenarios/test_model\.py", 35, 1),
    Budget("stopped jobs", r"pipeline/kills/test_stopped\.py", 35, 1),
    Budget("driver kills", r"pipeline/kills/test_driver\.py", 35, 1),
    Budget("poison records", r"pipeline/test_poison\.py", 25, 2),
    Budget("jobs", r"pipeline/", 50, 4),
    Budget("Spark shop", r"spark/test_spark_shop\.py::test_(tests|short)", 50, 1),
    Budget("bookkeeping", r"spark/progress/test_bookkeeping\.py", 35, 10),
    Budget("sinks", r"spark/sink/", 50, 10),
    Budget("Spark", r"spark/", 70, 25),
    Budget("mutants", r"mutants/test_mutants\.py", 35, 10),
    Budget("packaging", r"(wire/test_packaging|tools/test_release)\.py", 35, 2),
    Budget("failovers", r"wire/test_failovers\.py", 35, 6),
    Budget("graduation", r"wire/test_graduation\.py", 35, 1),
    Budget("salvage", r"wire/test_recover\.py", 30, 1),
    Budget("neighbours", r"wire/test_(neighbours|mixed_cluster|mixed_transactions)\.py", 50, 3),
    Budget("stories", r"wire/test_stories\.py", 30, 8),
    Budget("long waits", r"wire/test_slow\.py", 30, 1),
    Budget("stock clients", r"wire/test_clients\.py", 35, 15),
    Budget("pipes", r"wire/test_(pipes|shop)\.py", 35, 4),
    Budget("handles", r"wire/test_(handle|member|plugin)\.py", 50, 15),
    Budget("tools of Apache Kafka", r"wire/test_(tools|admin_tools|admin_surface|mirror|streams|share_groups)\.py", 50, 8),
    Budget("processes and sockets", r"wire/", 145, 60),
    Budget("typed pages", r"pages/test_typed\.py", 40, 3),
    Budget("testcontainers", r"container/test_testcontainers\.py", 35, 1),
    Budget("console in a browser", r"console/test_(in_browser|browser_access)\.py", 40, 10),
    Budget("large requests", r"broker/handlers/test_request_holds\.py", 30, 20),
    Budget("replaced data", r"broker/metadata/test_replaced_data\.py", 25, 5),
    Budget("damaged directories", r"broker/partitions/test_(damaged_\w+|failed_appends)\.py", 35, 20),
    Budget("assignors of Apache Kafka", r"coordinator/assignors/test_against_kafka\.py", 30, 2),
    Budget("compaction states", r"crash/test_compaction_states\.py", 20, 2),
    Budget("truncation states", r"crash/test_truncation_states\.py", 20, 3),
    Budget("dumps by Apache Kafka", r"crash/test_dump\.py", 25, 2),
    Budget("Apache Kafka's clusters", r"tools/test_kafka_cluster\.py", 35, 1),
    Budget("chaos", r"chaos/", 145, 3),
)
"""Time limits of groups of tests in ``make test-all``, in seconds summed over the processes of a run. A test belongs to the first
budget whose pattern matches it."""

SAMPLES = (
    Sample(
        "transcripts on Apache Kafka",
        r"scenarios/test_transcripts\.py::test_broker_responses_equal_those_of_the_transcript\[kafka-",
        100,
    ),
    Sample(
        "transcripts on ottla over sockets",
        r"scenarios/test_transcripts\.py::test_broker_responses_equal_those_of_the_transcript\[ottla-",
        200,
    ),
)
"""Tests of which ``--budgets`` selects ``size`` at random. Their time cannot be limited: the first test prepares all results."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--budgets"):
        for sample in SAMPLES:
            _keep_sample(config, items, sample)
    for item in items:
        for budget in BUDGETS:
            if re.match("tests/" + budget.pattern, item.nodeid):
                item.add_marker(pytest.mark.budget(budget.name, seconds=budget.seconds, floor=budget.floor))
                break


def _keep_sample(config: pytest.Config, items: list[pytest.Item], sample: Sample) -> None:
    """Deselect the tests of a sample beyond its size. The seed of the run determines which tests every worker runs."""
    matching = [item for item in items if re.match("tests/" + sample.pattern, item.nodeid)]
    seed = config.getoption("randomly_seed", 0)
    kept = set(random.Random(f"{seed} {sample.name}").sample(sorted(i.nodeid for i in matching), min(sample.size, len(matching))))
    left = {item for item in matching if item.nodeid not in kept}
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budgets", action="store_true", help="skip tests and cases that exceed their time budget")


def _spent_file(config: pytest.Config, name: str) -> Path:
    """Return the file to which all test processes append the start and duration of each test that shares a time budget."""
    worker = getattr(config, "workerinput", None)
    run = worker["testrunuid"] if worker is not None else getattr(config, "budget_run", "")
    return Path(tempfile.gettempdir()) / f"ottla-budget-{run}-{name}"


def pytest_configure(config: pytest.Config) -> None:
    config.budget_run = f"{time.time_ns()}"  # type: ignore[attr-defined]


def is_spent(lines: list[str], seconds: float, floor: int) -> bool:
    """Whether no further test of a budget may begin.

    ``lines`` are those of the budget's file: `BEGUN` for each begun test, then its duration in seconds or `SKIPPED`. A test that
    is still running counts with the mean duration of the completed tests.
    """
    durations = [float(line) for line in lines if line not in (BEGUN, SKIPPED)]
    running = lines.count(BEGUN) - lines.count(SKIPPED) - len(durations)
    if running + len(durations) < floor:
        return False
    return not durations or sum(durations) * (1 + running / len(durations)) >= seconds


def _append(file: Path, line: str) -> None:
    with file.open("a") as spent:
        spent.write(f"{line}\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    mark = item.get_closest_marker("budget")
    if mark is None or not item.config.getoption("--budgets"):
        return (yield)
    name, seconds, floor = mark.args[0], mark.kwargs["seconds"], mark.kwargs["floor"]
    file = _spent_file(item.config, name)
    if is_spent(file.read_text().splitlines() if file.exists() else [], seconds, floor):
        item.add_marker(pytest.mark.skip(reason=f"{LEFT_TO_NIGHTLY} {name} is {seconds} s"))
        return (yield)
    began_s = time.monotonic()
    _append(file, BEGUN)
    try:
        return (yield)
    finally:
        # A test that was skipped for another reason does not count towards the minimum, ``floor``.
        _append(file, f"{time.monotonic() - began_s:.3f}" if item.stash.get(HAS_RUN, False) else SKIPPED)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: Any = yield
    if report.when == "call" and report.outcome != "skipped":
        item.stash[HAS_RUN] = True
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    session = config.pluginmanager.get_plugin("dsession")
    runs = [config.budget_run, getattr(getattr(session, "nodemanager", None), "testrunuid", None)]  # type: ignore[attr-defined]
    for run in filter(None, runs):
        for file in Path(tempfile.gettempdir()).glob(f"ottla-budget-{run}-*"):
            file.unlink(missing_ok=True)


class WithinBudget(Protocol):
    """Type of the fixture `within_budget`.

    ``for case in within_budget(cases, seconds=60, floor=20)`` yields cases until 60 seconds are over, but at least 20 cases.
    """

    def __call__(self, cases: Iterable[Case], *, seconds: float, floor: int) -> Iterator[Case]: ...


@pytest.fixture
def within_budget(request: pytest.FixtureRequest) -> WithinBudget:
    def take(cases: Iterable[Case], *, seconds: float, floor: int) -> Iterator[Case]:
        began_s = time.monotonic()
        for number, case in enumerate(cases):
            if request.config.getoption("--budgets") and number >= floor and time.monotonic() - began_s >= seconds:
                return
            yield case

    return take
