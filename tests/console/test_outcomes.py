"""The outcome of the transactions of shown records, which a page of each isolation level states."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.records.test_reading import OnePartition
from tests.console.test_limits import page_of


def outcomes(page: Any) -> dict[int, str]:
    return {record["offset"]: record["outcome"] for record in page["records"] if record["control"] is None}


ALL = {0: None, 1: "aborted", 2: "aborted", 3: "committed", 5: "committed", 8: "open"}


@pytest.mark.parametrize("at_once", [1, 3, 8])
@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_records_of_read_uncommitted_have_the_outcomes_of_their_transactions(order: str, at_once: int) -> None:
    assert outcomes(page_of(OnePartition(at_once=at_once), isolation="all", order=order)) == ALL


def test_record_above_the_last_stable_offset_has_the_outcome_of_its_marker() -> None:
    # An open transaction at offset 3 would hold the last stable offset back. The transactions of producers 7 and 8 have markers.
    assert outcomes(page_of(OnePartition(stable=3), isolation="all")) == ALL


def test_filtered_record_has_the_outcome_of_its_transaction() -> None:
    assert outcomes(page_of(OnePartition(), isolation="all", value="a2")) == {2: "aborted"}


def test_outcome_that_the_search_does_not_reach_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.console.outcomes.MARKERS", 1)
    assert outcomes(page_of(OnePartition(stable=3), isolation="all"))[8] is None


@pytest.mark.parametrize(
    ("isolation", "known"), [("committed", {0: None, 3: "committed", 5: "committed"}), ("aborted", {1: "aborted", 2: "aborted"})]
)
def test_isolation_level_decides_the_outcome_of_its_records(isolation: str, known: dict[int, str]) -> None:
    assert outcomes(page_of(OnePartition(), isolation=isolation)) == known
