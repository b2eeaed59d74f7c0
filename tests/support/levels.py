"""The levels of tests: which make target runs which test.

| level | make target | which tests |
|---|---|---|
| check | ``make check`` | tests without a broker process, Java or heavy load |
| smoke | ``make test`` | marked ``smoke``: one short test per stock client, command line, console and Spark |
| full | ``make test-all`` | marked ``full``, ``wire``, ``java`` or ``heavy`` |
| nightly | ``make nightly`` | marked ``nightly``: tests that measure time or take many minutes |

``--level check,smoke`` runs the tests of these levels. Without the option all tests except those of the level nightly run, so a
file or a test on the command line needs no level.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

CHECK, SMOKE, FULL, NIGHTLY = LEVELS = ("check", "smoke", "full", "nightly")
NOT_PURE = frozenset({"full", "wire", "java", "heavy"})
"""Markers of tests that are too slow or too demanding for the level "check"."""
QUICK_EXAMPLES = 30
"""Number of examples of a property test below the level "full". Hypothesis's default is 100."""
FOLDERS_OF_PROCESSES = frozenset({"chaos", "mutants", "wire"})
"""Folders without a test of the level "check". They are not imported, which would take a third of the collection time."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--level", metavar="LEVELS", help=f"run the tests of these levels: {', '.join(LEVELS)}")


def _wanted(config: pytest.Config) -> frozenset[str]:
    given: str | None = config.getoption("--level")
    wanted = frozenset(given.split(",")) if given else frozenset(LEVELS) - {NIGHTLY}
    if unknown := wanted - set(LEVELS):
        raise pytest.UsageError(f"Unknown level {', '.join(sorted(unknown))}; the levels are {', '.join(LEVELS)}.")
    return wanted


def seeds(count: int, *, in_check: int) -> list[Any]:
    """Return the seeds below ``count`` as parameters.

    The first ``in_check`` seeds keep the test's level; the others are ``full``.
    """
    return [seed if seed < in_check else pytest.param(seed, marks=pytest.mark.full) for seed in range(count)]


def level_of(item: pytest.Item) -> str:
    """Return the level of a test. Markers of its parameters take precedence over markers of its function, class and module.

    Within either group ``nightly`` takes precedence over ``smoke``, and ``smoke`` over ``full``.
    """
    callspec = getattr(item, "callspec", None)
    of_parameters = {mark.name for mark in callspec.marks} if callspec is not None else set()
    for markers in (of_parameters, {mark.name for mark in item.iter_markers()}):
        for level in (NIGHTLY, SMOKE):
            if level in markers:
                return level
        if markers & NOT_PURE:
            return FULL
    return CHECK


def pytest_configure(config: pytest.Config) -> None:
    if _wanted(config) <= {CHECK, SMOKE}:
        settings.register_profile("quick", settings.default, max_examples=QUICK_EXAMPLES)
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path.name in FOLDERS_OF_PROCESSES and _wanted(config) == {CHECK} else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = _wanted(config)
    selected: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        (selected if level_of(item) in wanted else deselected).append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = selected
