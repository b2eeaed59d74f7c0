"""The table of tested Spark versions, and its place in the documentation."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from tools.spark_environments import RELEASES
from tools.spark_matrix import BEGIN, END, NOT_RUN, TARGET, WAYS, refusal_of, results_on, rewritten, table


def test_spark_matrix_has_a_column_for_each_version_and_a_row_for_each_deployment() -> None:
    version = next(iter(RELEASES.values())).version
    lines = table({f"{version} local": "ok", f"{version} minor": "refused"}).splitlines()
    assert len(lines) == 2 + len(WAYS)
    assert all(line.count("|") == 2 + len(RELEASES) for line in lines)
    rows = {line.split(" | ")[0].removeprefix("| "): line.split(" | ")[1:] for line in lines[2:]}
    assert rows[WAYS["local"]][0] == "ok"
    assert rows[WAYS["minor"]][0] == "refused"
    assert rows[WAYS["cluster"]][0] == NOT_RUN


def test_spark_matrix_replaces_only_the_text_between_its_markers() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = rewritten(page, {})
    assert once.startswith(f"before\n{BEGIN}\n| ")
    assert once.endswith(f" |\n{END}\nafter\n")
    assert rewritten(once, {}) == once
    assert rewritten(TARGET.read_text(), {}).count(BEGIN) == 1


def test_spark_matrix_results_are_read_back_from_its_page() -> None:
    first, second = list(RELEASES.values())[:2]
    results = {f"{first.version} local": "ok", f"{second.version} minor": "refused"}
    page = rewritten(f"{BEGIN}\n{END}", results)
    assert results_on(page) == results
    assert results_on(f"{BEGIN}\n{END}") == {}


def test_spark_3_refuses_the_ottla_format() -> None:
    refused = {minor: [way for way in WAYS if refusal_of(release, way) is not None] for minor, release in RELEASES.items()}
    assert refused.pop("3.5") == ["format", "minor", "connect", "connect-batch"]
    assert set(map(tuple, refused.values())) == {("minor", "connect-batch")}
