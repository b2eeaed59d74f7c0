"""Computes the table of test durations in docs/testing.md."""

from __future__ import annotations

from tools.durations import table


def test_duration_table_sums_tests_and_seconds_by_folder_for_each_test_run() -> None:
    passed, skipped = {"outcome": "passed", "duration_s": 2.0}, {"outcome": "skipped", "duration_s": 1.0}
    first = {
        "tests/wire/test_a.py::test_a[x/y]": passed,
        "tests/wire/test_a.py::test_b": skipped,
        "tests/test_lint.py::test_c": passed,
    }
    second = {"tests/wire/admin/test_d.py::test_d": {**passed, "duration_s": 3.4}}
    assert table({"one": first, "two": second}).splitlines() == [
        "| folder | one: tests | seconds | two: tests | seconds |",
        "|---|--:|--:|--:|--:|",
        "| wire | 1 | 2 | 1 | 3 |",
        "| tests | 1 | 2 | 0 | 0 |",
        "| all | 2 | 4 | 1 | 3 |",
    ]
