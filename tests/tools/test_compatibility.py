"""The tests that docs/compatibility.md counts."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tools.compatibility import _WIRE, OTHERS, ROOT, TABLES


@cache
def ids() -> list[str]:
    """Return the ids of all wire and container tests, without parameters."""
    found = []
    for path in (file for folder in ("wire", "container") for file in sorted((ROOT / "tests" / folder).rglob("test_*.py"))):
        names = re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
        found += [f"{path.relative_to(ROOT)}::{name}" for name in names]
    return found


@pytest.mark.parametrize(
    "selector", [cases.test for features, _ in TABLES for of_feature in features.values() for cases in of_feature]
)
def test_each_test_selector_of_the_compatibility_tables_selects_a_test(selector: str) -> None:
    assert any(one.startswith(_WIRE + selector) for one in ids())


@pytest.mark.parametrize("row", OTHERS)
def test_each_row_pattern_of_the_compatibility_table_matches_a_test_id(row: str) -> None:
    pattern = OTHERS[row][0].partition(r"\[")[0]
    assert any(re.match(pattern, one) for one in ids())
