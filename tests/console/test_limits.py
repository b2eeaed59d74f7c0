"""The limits of one read of a page, and where the next read resumes."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ottla.broker.hooks.transaction_history import Happened, Kind
from ottla.broker.view.partitions import EMPTY, LogState
from ottla.broker.view.topics import TopicListing
from ottla.client.explain.timeline import TimelineLimits
from ottla.client.kafka_client import KafkaClient
from ottla.console import messages as messages_page
from ottla.console import search
from ottla.console import transactions as transactions_page
from ottla.console.messages import messages
from ottla.console.transactions import transaction
from ottla.control.command import CommandRefused
from ottla.control.history import EventHistory
from ottla.protocol.topic_partition import TopicPartition
from tests.client.explain.test_timeline import Cluster
from tests.client.records.test_reading import OnePartition, batch
from tests.client.scripted import ScriptedCluster
from tests.console.asking import asked_with


class OneTopic:
    """A broker's view with one topic and without transactional ids.

    Each call of `log_states` returns the next of ``states``, and at their end repeats the final state. None means that the log is
    not on this broker.
    """

    def __init__(self, *states: LogState | None) -> None:
        self._states = list(states) or [None]

    def topic(self, name: str) -> TopicListing:
        return TopicListing(name=name, topic_id=bytes(16), partitions=1, replicas=1, is_internal=False)

    def log_states(self, of: Sequence[TopicPartition]) -> list[LogState | None]:
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        return [state] * len(of)

    def transaction(self, transactional_id: str) -> None:
        """Return None, because the topic has no transactional ids."""


def page_of(log: OnePartition, **query: str) -> Any:
    client = KafkaClient("kafka:9092", connect=ScriptedCluster(kafka=log.broker).connect)
    return messages(asked_with({"topic": "t", "partition": "0", **query}, view=OneTopic(), client=client))


def offsets(page: Any) -> list[int]:
    return [record["offset"] for record in page["records"]]


def test_console_record_search_with_few_matches_stops_at_a_limit_and_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "OFFSETS_SEARCHED", 3)
    monkeypatch.setattr(search, "FIRST_CHUNK", 2)
    monkeypatch.setattr(search, "LARGEST_CHUNK", 2)
    found: list[int] = []
    given = {"isolation": "aborted", "order": "oldest"}
    page = page_of(OnePartition(at_once=1), **given)
    assert page["is_partial"]
    while page["next"] is not None:
        found += offsets(page)
        page = page_of(OnePartition(at_once=1), **given, at=page["next"])
    assert found + offsets(page) == [1, 2, 4]


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("at_once", [1, 3, 8])
@pytest.mark.parametrize("chunk", [1, 3, 32])
def test_consecutive_console_pages_have_every_record_once(
    monkeypatch: pytest.MonkeyPatch, order: str, at_once: int, chunk: int
) -> None:
    monkeypatch.setattr(search, "FIRST_CHUNK", chunk)
    monkeypatch.setattr(messages_page, "MESSAGES_SHOWN", 7)
    log = [batch(0, *[b"x"] * 5), batch(5, *[b"y"] * 30), batch(40, b"after a gap"), batch(41, *[b"z"] * 9)]
    many = OnePartition(log=log, end=50, stable=50, at_once=at_once)
    page = page_of(many, isolation="all", order=order)
    found = offsets(page)
    while page["next"] is not None:
        page = page_of(many, isolation="all", order=order, at=page["next"])
        found += offsets(page)
    expected = [*range(35), *range(40, 50)]
    assert found == (expected if order == "oldest" else expected[::-1])


def test_positions_and_filters_of_a_console_page_select_records() -> None:
    log = [batch(0, b"a", b"B", b"a b"), batch(3, b"c")]
    many = OnePartition(log=log, end=4, stable=4)
    assert offsets(page_of(many, isolation="all", text="b")) == [2, 1]
    assert offsets(page_of(many, isolation="all", value="a", order="oldest")) == [0, 2]
    assert offsets(page_of(many, isolation="all", **{"from": "1", "to": "3"})) == [2, 1]
    assert offsets(page_of(many, isolation="all", **{"from": "-2"})) == [3, 2]
    assert offsets(page_of(many, isolation="all", producer="5")) == []
    for wrong in ({"from": "yesterday"}, {"order": "x"}, {"as_value": "x"}, {"at": "x"}, {"partition": "1-"}, {"partition": "1"}):
        with pytest.raises(CommandRefused):
            page_of(many, **wrong)


def test_record_filter_of_a_console_page_has_the_syntax_of_the_consume_command() -> None:
    log = [batch(0, b'{"a": 1}', b'{"a": [{"b": 2}]}', b"\x81\xa1a\x07", b"[" * 200 + b"]" * 200)]
    many = OnePartition(log=log, end=4, stable=4)
    assert offsets(page_of(many, isolation="all", filter="value.a=1")) == [0]
    assert offsets(page_of(many, isolation="all", filter="value$.a[?@.b>1]")) == [1]
    assert offsets(page_of(many, isolation="all", filter="value$.a=7")) == [2]
    assert offsets(page_of(many, isolation="all", filter="value$.a\noffset<2")) == [1, 0]
    deep = page_of(many, isolation="all", filter="value$..b")
    assert offsets(deep) == [1]
    assert deep["problems"] == [
        "t-0 at offset 3: the JSONPath descends more than 100 levels of one document; give a narrower path; the record is not shown"
    ]
    with pytest.raises(CommandRefused, match=r"filter: '\$\[' is not a JSONPath"):
        page_of(many, isolation="all", filter="value$[")


def test_console_page_decompresses_limited_bytes_and_reports_omitted_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small batch may inflate to 256 MiB, at each read of the page."""
    monkeypatch.setattr(search, "BYTES_INFLATED", 2 << 20)
    log = [batch(0, b"first"), batch(1, b"x" * (3 << 20), b"y", compression=1), batch(3, b"last")]
    large = OnePartition(log=log, end=4, stable=4)
    for order, expected in (("oldest", [0, 3]), ("newest", [3, 0])):
        found, problems = [], set()
        page = page_of(large, isolation="all", order=order)
        for _ in range(5):
            found += offsets(page)
            problems.update(page["problems"])
            if page["next"] is None:
                break
            page = page_of(large, isolation="all", order=order, at=page["next"])
        assert found == expected
        assert problems == {
            "the batch at offset 1 of t-0 inflates to more than 2 MiB, more than a page reads, so its offsets to 2 are not"
            " shown; ottla consume reads it"
        }


def test_console_reads_records_again_only_if_the_log_has_changed() -> None:
    partition = OnePartition()
    client = KafkaClient("kafka:9092", connect=ScriptedCluster(kafka=partition.broker).connect)
    grown = msgspec.structs.replace(EMPTY, size_bytes=1)
    asked = asked_with({"topic": "t", "isolation": "all"}, view=OneTopic(EMPTY, EMPTY, grown, None, None), client=client)
    fetches = []
    for _ in range(5):
        assert offsets(messages(asked))
        fetches.append(partition.broker.names().count("Fetch"))
    assert fetches[0] == fetches[1] > 0
    assert fetches[1] < fetches[2] < fetches[3] < fetches[4]


def test_last_console_page_of_records_has_no_next_link() -> None:
    page = page_of(OnePartition(), isolation="committed", order="oldest")
    assert (offsets(page), page["next"], page["is_partial"]) == ([0, 3, 5, 6, 7], None, False)


def transaction_of(cluster: Cluster, transactional_id: str, known: EventHistory) -> Any:
    client = KafkaClient("kafka:9092", connect=ScriptedCluster(kafka=cluster.broker).connect)
    clock = SimpleNamespace(now_ms=lambda: 5_000)
    broker = SimpleNamespace(clock=clock)
    asked = asked_with({"id": transactional_id}, view=OneTopic(), client=client, history=known, clock=None, broker=broker)
    return transaction(asked)


def test_console_page_of_a_large_timeline_reports_unread_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions_page, "LIMITS", TimelineLimits(log_offsets=6, data_records=4))
    page = transaction_of(Cluster(transactions=3, records=5), "shop", EventHistory())
    assert [event["kind"] for event in page["events"]].count("complete") == 2
    assert [line.split(" ", 1)[0] for line in page["unread"]] == ["__transaction_state:0", "topic"]
    with pytest.raises(CommandRefused, match="no events found of transactional id 'other'; not searched: __transaction_state:0"):
        transaction_of(Cluster(transactions=3, records=5), "other", EventHistory())
    known = EventHistory()
    known.happened(Happened(transactional_id="other", kind=Kind.DECIDED, time_ms=7, outcome="timeout"))
    assert [event["kind"] for event in transaction_of(Cluster(3, 5), "other", known)["events"]] == ["reason"]
