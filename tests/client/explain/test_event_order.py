"""The order of events with equal timestamps: each input keeps its own order, and a request precedes the events it caused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.explain.event_order import STEPS, in_order
from ottla.client.explain.timeline import TimelineEvent

REQUESTS = ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce", "EndTxn"]
LOGGED = ["init", "begin", "add", "data", "decide", "marker", "complete", "expire"]


def event(kind: str, time_ms: int = 5, number: int = 0) -> TimelineEvent:
    """Return an event of a kind. An API name is a request; an API name after a minus is a refused request."""
    name = kind.removeprefix("-")
    if name in REQUESTS:
        return TimelineEvent(time_ms, "refused" if kind.startswith("-") else "request", f"{name} of x", f"from {number}", (1, 0))
    return TimelineEvent(time_ms, kind, kind, f"at {number}", (1, 0))


def told(events: list[TimelineEvent]) -> list[str]:
    return [
        e.what.split()[0] if e.kind == "request" else f"-{e.what.split()[0]}" if e.kind == "refused" else e.kind for e in events
    ]


def ordered(log: str, requests: str) -> str:
    return " ".join(told(in_order([event(k) for k in log.split()], [[event(k) for k in requests.split()]])))


TRANSACTION = "begin data decide marker complete"
STEPS_OF_ONE = "AddPartitionsToTxn begin data EndTxn decide marker complete"


def test_transaction_events_of_one_millisecond_are_in_causal_order() -> None:
    assert (
        ordered(f"init {TRANSACTION}", "InitProducerId AddPartitionsToTxn AddOffsetsToTxn EndTxn")
        == "InitProducerId init AddPartitionsToTxn AddOffsetsToTxn begin data EndTxn decide marker complete"
    )


def test_transactions_of_one_millisecond_are_in_causal_order() -> None:
    """All events have the same timestamp if the broker's clock is stopped."""
    many = 3
    assert (
        ordered(f"init {' '.join([TRANSACTION] * many)}", f"InitProducerId {' '.join(['AddPartitionsToTxn EndTxn'] * many)}")
        == f"InitProducerId init {' '.join([STEPS_OF_ONE] * many)}"
    )
    assert ordered(" ".join([TRANSACTION] * many), " ".join(["EndTxn"] * many)) == " ".join(
        ["begin data EndTxn decide marker complete"] * many
    )


def test_transaction_log_events_precede_requests_after_the_request_that_caused_them() -> None:
    log = [event("begin", 4), event("decide", 5), event("complete", 5), event("begin", 5), event("decide", 5)]
    requests = [event("EndTxn", 4), event("EndTxn", 5)]
    assert told(in_order(log, [requests])) == ["begin", "EndTxn", "decide", "complete", "begin", "EndTxn", "decide"]


def test_retried_end_txn_request_is_not_matched_with_another_decision() -> None:
    log = [event("decide", 5), event("complete", 6), event("begin", 7), event("decide", 8)]
    requests = [event("EndTxn", 5), event("EndTxn", 6), event("EndTxn", 8)]
    assert told(in_order(log, [requests])) == ["EndTxn", "decide", "EndTxn", "complete", "begin", "EndTxn", "decide"]


def test_refused_end_txn_request_is_not_matched_with_a_log_event() -> None:
    assert ordered(TRANSACTION, "-EndTxn EndTxn") == "begin data -EndTxn EndTxn decide marker complete"
    assert ordered(f"{TRANSACTION} {TRANSACTION}", "EndTxn -AddPartitionsToTxn AddPartitionsToTxn") == (
        "begin data EndTxn -AddPartitionsToTxn decide marker complete AddPartitionsToTxn begin data decide marker complete"
    )
    assert ordered("init begin", "-AddPartitionsToTxn InitProducerId") == "-AddPartitionsToTxn InitProducerId init begin"
    assert ordered("begin data init begin", "-EndTxn InitProducerId") == "begin data -EndTxn InitProducerId init begin"


TIMES = st.integers(1, 3)


@given(
    log=st.lists(st.tuples(TIMES, st.sampled_from(LOGGED))),
    others=st.lists(
        st.lists(
            st.tuples(TIMES, st.sampled_from([*REQUESTS, *(f"-{api}" for api in REQUESTS), "fenced", "reason", "data", "marker"]))
        ),
        max_size=3,
    ),
)
def test_transaction_events_are_sorted_by_time_and_keep_their_sequence_order(
    log: list[tuple[int, str]], others: list[list[tuple[int, str]]]
) -> None:
    numbered = iter(range(10_000))
    sequences = [
        sorted((event(kind, time_ms, next(numbered)) for time_ms, kind in one), key=lambda e: e.time_ms) for one in (log, *others)
    ]
    happened = in_order(sequences[0], sequences[1:])
    assert [e.time_ms for e in happened] == sorted(e.time_ms for one in sequences for e in one)
    for one in sequences:
        known = {id(e) for e in one}
        assert [e for e in happened if id(e) in known] == one


@given(
    adds=st.lists(st.sampled_from(["AddPartitionsToTxn", "AddOffsetsToTxn"]), max_size=3),
    data=st.integers(0, 3),
    markers=st.integers(0, 3),
    is_refused=st.booleans(),
)
def test_transaction_timeline_lists_a_transaction_of_one_millisecond_from_begin_to_end(
    adds: list[str], data: int, markers: int, is_refused: bool
) -> None:
    log = ["init", "begin", *["data"] * data, "decide", *["marker"] * markers, "complete"]
    requests = ["InitProducerId", *adds, *["-EndTxn"] * is_refused, "EndTxn"]
    happened = told(in_order([event(kind) for kind in log], [[event(kind) for kind in requests]]))
    steps = [STEPS[kind.removeprefix("-")] for kind in happened]
    assert steps == sorted(steps)
