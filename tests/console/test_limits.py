"""The limits of one read of a page, and where the next read resumes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.hooks.transaction_history import Happened, Kind
from ottla.client.kafka_client import KafkaClient
from ottla.client.timeline import TimelineLimits
from ottla.console import messages as messages_page
from ottla.console import transactions as transactions_page
from ottla.console.messages import MESSAGES_SHOWN, messages
from ottla.console.page_request import Asked
from ottla.console.transactions import transaction
from ottla.control.command import CommandRefused
from ottla.control.history import EventHistory
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tests.client.scripted import ScriptedCluster
from tests.client.test_reading import OnePartition, batch
from tests.client.test_timeline import Cluster
from tests.console.endless import ENDLESS


def page_of(partition: OnePartition, **query: str) -> Any:
    client = KafkaClient("kafka:9092", connect=ScriptedCluster(kafka=partition.broker).connect)
    return messages(
        Asked(query={"topic": "t", "partition": "0", **query}, client=client, on_loop=cast(Any, None), deadline=ENDLESS)
    )


def offsets(page: Any) -> list[int]:
    return [record["offset"] for record in page["records"]]


def test_search_with_few_matches_stops_and_links_to_its_continuation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_page, "OFFSETS_SEARCHED", 3)
    first = page_of(OnePartition(at_once=1), isolation="aborted", start="2")
    assert (offsets(first), first["next_offset"], first["stopped_at"]) == ([2, 4], 5, 5)
    nothing = page_of(OnePartition(at_once=1), isolation="aborted", start="5")
    assert (offsets(nothing), nothing["next_offset"], nothing["stopped_at"]) == ([], None, None)


def test_full_page_continues_after_its_last_record() -> None:
    many = OnePartition(log=[batch(0, *[b"x"] * 1_000)], end=1_000, stable=1_000)
    page = page_of(many, isolation="all", start="10")
    assert (len(page["records"]), page["next_offset"], page["stopped_at"]) == (MESSAGES_SHOWN, 10 + MESSAGES_SHOWN, None)
    newest = page_of(many, isolation="all")
    assert (newest["next_offset"], newest["stopped_at"]) == (None, None)


def test_page_reads_a_bounded_number_of_bytes_and_reports_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small batch may inflate to 256 MiB, each time that the page is read."""
    monkeypatch.setattr(messages_page, "BYTES_READ", 2 << 20)
    log = [batch(0, b"first"), batch(1, b"x" * (3 << 20), b"y", compression=1), batch(3, b"last")]
    large = OnePartition(log=log, end=4, stable=4)
    page = page_of(large, isolation="all", start="0")
    assert (offsets(page), page["next_offset"], page["stopped_at"]) == ([0], 1, None)
    assert page["too_large"] == "the page ends before offset 1: its batches inflate to more than 2 MiB"
    page = page_of(large, isolation="all", start="1")
    assert (offsets(page), page["next_offset"]) == ([], 3)
    assert page["too_large"] == (
        "the batch at offset 1 of t-0 inflates to more than 2 MiB, more than a page reads, so its offsets to 2 are not"
        " shown; ottla consume reads it"
    )
    page = page_of(large, isolation="all", start="3")
    assert (offsets(page), page["too_large"]) == ([3], None)


def test_last_page_has_no_next_link() -> None:
    page = page_of(OnePartition(), isolation="committed", start="0")
    assert (offsets(page), page["next_offset"], page["stopped_at"]) == ([0, 3, 5, 6, 7], None, None)


def transaction_of(cluster: Cluster, transactional_id: str, known: EventHistory) -> Any:
    unknown = DescribeTransactionsResponse(
        transaction_states=[TransactionState(error_code=Code.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=transactional_id)]
    )
    coordinator = FindCoordinatorResponse(coordinators=[Coordinator(key=transactional_id, node_id=1, host="kafka", port=9092)])
    cluster.broker.answers |= {"DescribeTransactions": [unknown], "FindCoordinator": [coordinator]}
    client = KafkaClient("kafka:9092", connect=ScriptedCluster(kafka=cluster.broker).connect)
    clock = SimpleNamespace(now_ms=lambda: 5_000)
    steered = cast(Any, SimpleNamespace(history=known, clock=None, serving=SimpleNamespace(broker=SimpleNamespace(clock=clock))))
    return transaction(Asked(query={"id": transactional_id}, client=client, on_loop=lambda read: read(steered), deadline=ENDLESS))


def test_large_timeline_reports_unread_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions_page, "LIMITS", TimelineLimits(log_offsets=6, data_records=4))
    page = transaction_of(Cluster(transactions=3, records=5), "shop", EventHistory())
    assert [event["kind"] for event in page["events"]].count("complete") == 2
    assert [line.split(" ", 1)[0] for line in page["unread"]] == ["__transaction_state:0", "topic"]
    with pytest.raises(CommandRefused, match="no events found of transactional id 'other'; not searched: __transaction_state:0"):
        transaction_of(Cluster(transactions=3, records=5), "other", EventHistory())
    known = EventHistory()
    known.happened(Happened(transactional_id="other", kind=Kind.DECIDED, time_ms=7, outcome="timeout"))
    assert [event["kind"] for event in transaction_of(Cluster(3, 5), "other", known)["events"]] == ["reason"]
