"""The outcome of the transactions of shown records, which a page of each isolation level states."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.kafka_client import KafkaClient
from ottla.console import search
from ottla.console.outcomes import outcomes as outcomes_of
from ottla.console.shown_record import record
from tests.client.records.test_reading import OnePartition
from tests.client.scripted import ScriptedCluster
from tests.console.asking import asked_with
from tests.console.test_limits import OneTopic, page_of
from tests.support.consumed import consumed


def outcomes(page: Any) -> dict[int, str]:
    return {record["offset"]: record["outcome"] for record in page["records"] if record["control"] is None}


ALL = {0: None, 1: "aborted", 2: "aborted", 3: "committed", 5: "committed", 8: "open"}


@pytest.mark.parametrize("at_once", [1, 3, 8])
@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_console_shows_the_transaction_outcome_of_each_record_read_uncommitted(order: str, at_once: int) -> None:
    assert outcomes(page_of(OnePartition(at_once=at_once), isolation="all", order=order)) == ALL


def test_console_record_above_the_last_stable_offset_has_the_outcome_of_its_marker() -> None:
    # An open transaction at offset 3 would hold the last stable offset back. The transactions of producers 7 and 8 have markers.
    assert outcomes(page_of(OnePartition(stable=3), isolation="all")) == ALL


def test_filtered_console_record_has_the_outcome_of_its_transaction() -> None:
    assert outcomes(page_of(OnePartition(), isolation="all", value="a2")) == {2: "aborted"}


def test_transaction_outcome_beyond_the_limit_of_searched_markers_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.console.outcomes.MARKERS", 1)
    page = page_of(OnePartition(stable=3), isolation="all")
    assert outcomes(page)[8] is None
    assert outcomes(page_of(OnePartition(), isolation="all"))[8] == "open", "its offset is the last stable offset"


@pytest.mark.parametrize(
    ("isolation", "known"), [("committed", {0: None, 3: "committed", 5: "committed"}), ("aborted", {1: "aborted", 2: "aborted"})]
)
def test_console_shows_the_outcome_of_committed_and_of_aborted_records(isolation: str, known: dict[int, str]) -> None:
    assert outcomes(page_of(OnePartition(), isolation=isolation)) == known


@pytest.mark.parametrize(("offset", "outcome"), [(1, "aborted"), (5, "committed"), (8, "open"), (0, None), (4, None)])
def test_console_page_of_one_record_has_the_outcome_of_its_transaction(offset: int, outcome: str | None) -> None:
    client = KafkaClient("kafka:9092", connect=ScriptedCluster(kafka=OnePartition().broker).connect)
    asked = asked_with({"topic": "t", "partition": "0", "offset": str(offset)}, view=OneTopic(), client=client)
    assert record(asked)["outcome"] == outcome


def test_search_for_transaction_outcomes_above_the_last_stable_offset_decodes_only_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    monkeypatch.setattr(search, "decoded", lambda topic, index, batch, header, allowance: decoded.append(header.base_offset) or [])
    above = [consumed(partition=0, offset=5, producer_id=7, transactional=True)]
    client = KafkaClient("kafka:9092", connect=ScriptedCluster(kafka=OnePartition(stable=3).broker).connect)
    outcomes_of(client.brokers, "t", "all", above, {0: 3}, {0: 9}, lambda: None)
    assert decoded == [6, 7]
