"""Events of the control API in timelines and in explanations of blocked readers."""

from __future__ import annotations

from typing import Any

from ottla.cli.txn_timeline import diagram
from ottla.client.explain.reasons import why_held
from ottla.client.explain.timeline import TimelineEvent
from ottla.control.timeline import holder_text, merged
from tests.client.explain.test_reasons import NOW_MS, held, holder, transaction

CLIENT = {"client_id": "c", "client_host": "127.0.0.1"}
LOGGED = [
    TimelineEvent(10, "init", "a producer gets the id", "log at 0", (7, 0)),
    TimelineEvent(20, "begin", "a transaction begins", "log at 1", (7, 0), [("t", 0)]),
    TimelineEvent(40, "decide", "abort is decided", "log at 2", (7, 1), [("t", 0)]),
    TimelineEvent(41, "marker", "abort marker", "t:0 at 1", (7, 1), [("t", 0)]),
]
KNOWN: dict[str, Any] = {
    "transactional_id": "orders",
    "holder": {**CLIENT, "client_id": "d", "since_ms": 45},
    "forgotten": 0,
    "events": [
        {"time_ms": 10, "kind": "request", "api": "InitProducerId", **CLIENT, "new_producer_id": 7, "new_producer_epoch": 0},
        {"time_ms": 40, "kind": "decided", "outcome": "fenced", "producer_id": 7, "producer_epoch": 1},
        {"time_ms": 41, "kind": "markers", "outcome": "abort", "producer_id": 7, "producer_epoch": 1},
        {
            "time_ms": 45,
            "kind": "fenced",
            "producer_id": 7,
            "producer_epoch": 0,
            "new_producer_id": 7,
            "new_producer_epoch": 2,
            **CLIENT,
            "client_id": "d",
        },
        {"time_ms": 45, "kind": "request", "api": "InitProducerId", **CLIENT, "client_id": "d"},
        {
            "time_ms": 50,
            "kind": "request",
            "api": "EndTxn",
            "outcome": "commit",
            **CLIENT,
            "producer_id": 7,
            "producer_epoch": 0,
            "error": "PRODUCER_FENCED",
        },
        {
            "time_ms": 60,
            "kind": "request",
            "api": "AddPartitionsToTxn",
            **CLIENT,
            "partitions": [{"topic": "t", "partition": 0}],
            "partition_count": 2,
        },
    ],
}


def test_txn_timeline_lists_requests_before_the_log_events_that_they_cause() -> None:
    events = merged(LOGGED, KNOWN)
    assert [event.kind for event in events] == [
        "request",
        "init",
        "begin",
        "reason",
        "decide",
        "marker",
        "request",
        "fenced",
        "refused",
        "request",
    ]
    assert events[0].where == "from client c at 127.0.0.1"
    assert events[7].what == "is fenced by producer 7 epoch 2, client d at 127.0.0.1, the new owner of the id"
    assert (events[8].what, events[8].producer) == ("EndTxn commit is refused: PRODUCER_FENCED", (7, 0))
    assert events[9].what == "AddPartitionsToTxn t:0 and 1 more partition"


def test_txn_timeline_diagram_draws_events_of_one_millisecond_in_causal_order() -> None:
    log = [
        TimelineEvent(10, "begin", "a transaction begins", "log at 1", (7, 0), [("t", 0)]),
        TimelineEvent(10, "data", "1 record written", "t:0 at 0", (7, 0), [("t", 0)]),
        TimelineEvent(10, "decide", "commit is decided", "log at 2", (7, 1), [("t", 0)]),
    ]
    asked = {"time_ms": 10, "kind": "request", **CLIENT, "producer_id": 7, "producer_epoch": 0}
    known = {"events": [{**asked, "api": "AddPartitionsToTxn"}, {**asked, "api": "EndTxn", "outcome": "commit"}]}
    arrows = [line.partition(": ")[2] for line in diagram("orders", merged(log, known)).splitlines() if ": " in line]
    assert [text.split(" (")[0].split(":")[0] for text in arrows[-5:]] == [
        "AddPartitionsToTxn",
        "a transaction begins",
        "1 record written",
        "EndTxn commit",
        "commit is decided",
    ]


def test_txn_timeline_lists_fencing_after_the_request_that_caused_it() -> None:
    """The control API records a request when it is answered, in the same millisecond as the fencing that it caused."""
    asked = {"time_ms": 10, "kind": "request", "api": "InitProducerId", **CLIENT}
    fenced = {"time_ms": 10, "kind": "fenced", **CLIENT, "new_producer_id": 7, "new_producer_epoch": 2}
    events = merged([], {"events": [asked, fenced, asked, fenced, {**asked, "error": "CONCURRENT_TRANSACTIONS"}, asked]})
    assert [event.kind for event in events] == ["request", "request", "fenced", "refused", "request", "fenced"]


def test_txn_timeline_has_only_log_events_without_a_control_api() -> None:
    assert merged(LOGGED, None) == LOGGED
    assert holder_text(None) == holder_text({"holder": None}) == ""
    assert holder_text({"holder": {"client_id": "", "client_host": "127.0.0.1"}}) == "client (without an id) at 127.0.0.1"


def test_txn_timeline_diagram_draws_every_client() -> None:
    drawn = diagram("orders", merged(LOGGED, KNOWN))
    assert "participant K0 as client c at 127.0.0.1" in drawn
    assert "participant K1 as client d at 127.0.0.1" in drawn
    assert "K0-xT: EndTxn commit is refused: PRODUCER_FENCED (7 epoch 0)" in drawn
    assert "T->>P0: abort marker" in drawn
    assert "Note over T: abort is decided" in drawn


def test_txn_why_command_names_the_client_of_the_blocking_transaction() -> None:
    stands, _ = why_held(held(holder=holder(), transaction=transaction()), NOW_MS, {"checkout-1": "client c at 127.0.0.1"})
    assert "transactional id checkout-1 from client c at 127.0.0.1, open for 42.0 s, times out in 18.0 s;" in stands
