"""The results of a run as files: what each test did (``--results``), and which rules are met (``--scoreboard``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import rules

RESULTS: dict[str, dict[str, Any]] = {}
"""Results by test id: ``outcome``, ``duration_s``, ``reason`` of a failure or skip, and ``when`` for the phase that failed."""
RULES: list[dict[str, Any]] = []
MAX_REASON_LENGTH = 300
"""Maximum number of characters of a reason."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", metavar="FILE", help="write each test's outcome, duration and reason")
    parser.addoption("--scoreboard", metavar="FILE", help="write which rules' tests passed against which broker")
    parser.addoption("--parts", metavar="LETTERS", help="run only tests of rules in these parts of docs/rules.md, such as T,V")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Attach to each test the rules of docs/rules.md that it covers, and the broker under test."""
    _select_parts(config, items)
    for item in items:
        params, entries = _params(item), _entries(item)
        scenario = params.get("scenario")
        if not entries:
            continue
        item.user_properties.append(("entries", entries))
        item.user_properties.append(("target", _target(item)))
        if scenario is not None:
            item.user_properties.append(("title", scenario.title))
            item.user_properties.append(("differs", scenario.differs))


def _params(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


def _entries(item: pytest.Item) -> list[str]:
    scenario = _params(item).get("scenario")
    return list(scenario.entries) if scenario is not None else [e for mark in item.iter_markers("entry") for e in mark.args]


def _target(item: pytest.Item) -> str:
    """Return the broker under test: the parameter ``target``, else that of the marker ``target``, else ottla."""
    marker = item.get_closest_marker("target")
    return str(_params(item).get("target", marker.args[0] if marker else "ottla"))


def _select_parts(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only tests whose first rule (of docs/rules.md) is in one of the parts that ``--parts`` names."""
    letters = config.getoption("--parts")
    if letters:
        of_parts = {rule for section in rules.sections_of(letters) for rule in rules.by_section()[section]}
        left_out = [item for item in items if not of_parts & set(_entries(item)[:1])]
        items[:] = [item for item in items if of_parts & set(_entries(item)[:1])]
        config.hook.pytest_deselected(items=left_out)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        path = Path(crash.path)
        return f"{path.name}:{crash.lineno}: {crash.message.partition(chr(10))[0]}"[:MAX_REASON_LENGTH]
    return str(report.longrepr or "").strip().rpartition("\n")[2][:MAX_REASON_LENGTH]


def _add(report: pytest.TestReport | pytest.CollectReport, duration_s: float) -> None:
    # xdist appends a test's group to the ids that its workers report.
    name = report.nodeid.rpartition("@")[0] or report.nodeid if hasattr(report, "node") else report.nodeid
    result = RESULTS.setdefault(name, {"outcome": "passed", "duration_s": 0.0, "reason": "", "when": ""})
    result["duration_s"] += duration_s
    if report.outcome != "passed" and result["outcome"] != "failed":
        result |= {"outcome": report.outcome, "reason": _reason(report), "when": report.when}


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Record a file that cannot be imported, or is skipped as a whole, as one test."""
    if report.outcome != "passed":
        _add(report, 0.0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _add(report, report.duration)
    properties = dict(report.user_properties)
    if "entries" in properties and (report.when == "call" or report.outcome != "passed"):
        RULES.append({"test": report.nodeid, "outcome": report.outcome, **properties})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Record the crash of an xdist worker as a failure, because tests assigned to it may have no result."""
    if error:
        RESULTS[f"worker {node.gateway.id}"] = {"outcome": "failed", "duration_s": 0.0, "reason": str(error), "when": "crash"}


def pytest_sessionfinish(session: pytest.Session) -> None:
    # With xdist only the controller writes the files, because it receives the reports of all workers.
    if hasattr(session.config, "workerinput"):
        return
    for option, results in (("--results", RESULTS), ("--scoreboard", RULES)):
        target = session.config.getoption(option)
        if target:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).write_text(json.dumps(results))
