"""Orders events of a transactional id that have the same time.

A transaction may take less than a millisecond, and with a frozen clock many transactions have the same time. Within one log, or one
list of requests, the order is known. A request precedes the record that it causes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Final, Protocol, TypeVar

STEPS: Final[dict[str, int]] = {
    **dict.fromkeys(("InitProducerId", "fenced"), 0),
    "init": 1,
    **dict.fromkeys(("AddPartitionsToTxn", "AddOffsetsToTxn"), 2),
    **dict.fromkeys(("begin", "add"), 3),
    **dict.fromkeys(("data", "Produce", "TxnOffsetCommit"), 4),
    **dict.fromkeys(("EndTxn", "reason"), 5),
    "decide": 6,
    "marker": 7,
    "complete": 8,
    "expire": 9,
}
"""The order of events within a transaction, by kind of event or, for a request, by API."""
_CAUSES: Final[dict[str, tuple[str, ...]]] = {
    "InitProducerId": ("init",),
    **dict.fromkeys(("AddPartitionsToTxn", "AddOffsetsToTxn"), ("begin", "add")),
    **dict.fromkeys(("data", "TxnOffsetCommit", "EndTxn", "reason"), ("decide",)),
    "marker": ("complete",),
}
"""The kinds of records in the coordinator's log that an event can cause, by the event's kind or API."""
_CAUSES_ONE: Final = frozenset({"InitProducerId", "EndTxn", "reason", "marker"})
"""Kinds and APIs of events that cause one record each. Several events of another kind may cause one record together."""


class TimedEvent(Protocol):
    """The attributes of a `timeline.TimelineEvent` that determine the order."""

    @property
    def time_ms(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def what(self) -> str: ...


E = TypeVar("E", bound=TimedEvent)


def in_order(log: Sequence[E], others: Iterable[Sequence[E]]) -> list[E]:
    """Merge the events of the coordinator's log and of other sequences by time. Within one sequence, events with the same time keep
    their order."""
    log = sorted(log, key=attrgetter("time_ms"))
    times = [event.time_ms for event in log]
    placed = [((event.time_ms, at, 1), event) for at, event in enumerate(log)]
    for sequence in others:
        ordered = sorted(sequence, key=attrgetter("time_ms"))
        placed += [((event.time_ms, at, 0), event) for event, at in zip(ordered, _places(log, times, ordered), strict=True)]
    placed.sort(key=itemgetter(0))
    return [event for _, event in placed]


def _places(log: Sequence[TimedEvent], times: Sequence[int], sequence: Sequence[TimedEvent]) -> Iterable[int]:
    """Return for each event of a sequence the index of the log event before which it belongs."""
    causing = _causing(log, times, sequence)
    # An event that caused no record belongs before the records that later events of the sequence caused.
    limits = list(accumulate(reversed(causing), lambda limit, at: limit if at is None else min(limit, at), initial=len(log)))[::-1]
    at = 0
    for event, caused, limit in zip(sequence, causing, limits[1:], strict=True):
        at = bisect_left(times, event.time_ms, at)
        if caused is not None:
            at = caused
        else:
            step = STEPS[_step(event)]
            while at < limit and times[at] == event.time_ms and STEPS[log[at].kind] < step:
                at += 1
        yield at


def _causing(log: Sequence[TimedEvent], times: Sequence[int], sequence: Iterable[TimedEvent]) -> list[int | None]:
    """Return for each event of a sequence the index of the log event that it caused, if any."""
    causing: list[int | None] = []
    at = first_uncaused = 0
    for event in sequence:
        at = bisect_left(times, event.time_ms, at)
        step = _step(event)
        caused = _caused(log, max(at, first_uncaused), event, step)
        if caused is not None:
            at = caused
            if step in _CAUSES_ONE:
                first_uncaused = caused + 1
        causing.append(caused)
    return causing


def _caused(log: Sequence[TimedEvent], start: int, event: TimedEvent, step: str) -> int | None:
    """Return the index of the record that an event caused. The search ends at the first later state change of another kind, because
    the records after it have another cause."""
    causes = () if event.kind == "refused" else _CAUSES.get(step, ())
    for at in range(start, len(log) if causes else start):
        if log[at].kind in causes:
            return at
        if log[at].time_ms > event.time_ms and log[at].kind != "data":
            break
    return None


def _step(event: TimedEvent) -> str:
    if event.kind not in ("request", "refused"):
        return event.kind
    # Only the text of a rejected marker does not begin with the name of an API.
    api = event.what.partition(" ")[0]
    return api if api in STEPS else "marker"
