"""Time budgets for tests that sample a large space: crash states, mutants, kills, fuzzing, simulated worlds.

``@pytest.mark.budget("mutants", seconds=90, floor=10)`` says that the tests of this name together may take 90 seconds of a run with
``--budgets``, and that at least 10 of them run, however slow the machine is. The rest is skipped; pytest-randomly chooses which
by the seed of the run. A test that loops over cases itself takes them, from the first on, from the fixture `within_budget`. Without
``--budgets``, as in ``make nightly`` and where a test is named, everything runs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from tools.test_run import LEFT_TO_NIGHTLY

Case = TypeVar("Case")

HAS_RUN = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budgets", action="store_true", help="leave out tests and cases beyond their time budget")


def _spent_file(config: pytest.Config, name: str) -> Path:
    """The file to which all processes of a run append the seconds of each test of a budget."""
    worker = getattr(config, "workerinput", None)
    run = worker["testrunuid"] if worker is not None else getattr(config, "budget_run", "")
    return Path(tempfile.gettempdir()) / f"ottla-budget-{run}-{name}"


def pytest_configure(config: pytest.Config) -> None:
    config.budget_run = f"{time.time_ns()}"  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    mark = item.get_closest_marker("budget")
    if mark is None or not item.config.getoption("--budgets"):
        return (yield)
    name, seconds, floor = mark.args[0], mark.kwargs["seconds"], mark.kwargs["floor"]
    file = _spent_file(item.config, name)
    durations = [float(line) for line in file.read_text().split()] if file.exists() else []
    if len(durations) >= floor and sum(durations) >= seconds:
        item.add_marker(pytest.mark.skip(reason=f"{LEFT_TO_NIGHTLY} {name} is {seconds} s"))
        return (yield)
    began_s = time.monotonic()
    try:
        return (yield)
    finally:
        # A test that was skipped for another reason is not one of the floor.
        if item.stash.get(HAS_RUN, False):
            with file.open("a") as spent:
                spent.write(f"{time.monotonic() - began_s:.3f}\n")


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
    """``for case in within_budget(cases, seconds=60, floor=20)`` takes cases until the time is over, and at least ``floor``."""

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
