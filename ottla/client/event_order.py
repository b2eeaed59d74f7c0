"""The order of what has happened to a transactional id, where times do not tell it.

A transaction may take less than a millisecond, and a clock that stands gives one time to many transactions. Each log and each list
of requests has an order of its own. Between them stands what the protocol says: a request comes before the record that it causes.
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
"""The steps of a transaction in their order, by the kind of the event and for a request by its API."""
_CAUSES: Final[dict[str, tuple[str, ...]]] = {
    "InitProducerId": ("init",),
    **dict.fromkeys(("AddPartitionsToTxn", "AddOffsetsToTxn"), ("begin", "add")),
    **dict.fromkeys(("data", "TxnOffsetCommit", "EndTxn", "reason"), ("decide",)),
    "marker": ("complete",),
}
"""What follows on a step in the coordinator's log, if the step is not refused."""
_CAUSES_ONE: Final = frozenset({"InitProducerId", "EndTxn", "reason", "marker"})
"""Steps that another of their kind follows with a record of its own. A transaction has any number of the others."""


class TimedEvent(Protocol):
    """What is needed here of a `timeline.Event`."""

    @property
    def time_ms(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def what(self) -> str: ...


E = TypeVar("E", bound=TimedEvent)


def in_order(log: Sequence[E], others: Iterable[Sequence[E]]) -> list[E]:
    """The events of the coordinator's log and those of other sequences by their times. The events of each sequence that have one
    time stay in their order."""
    log = sorted(log, key=attrgetter("time_ms"))
    times = [event.time_ms for event in log]
    placed = [((event.time_ms, at, 1), event) for at, event in enumerate(log)]
    for sequence in others:
        ordered = sorted(sequence, key=attrgetter("time_ms"))
        placed += [((event.time_ms, at, 0), event) for event, at in zip(ordered, _places(log, times, ordered), strict=True)]
    placed.sort(key=itemgetter(0))
    return [event for _, event in placed]


def _places(log: Sequence[TimedEvent], times: Sequence[int], sequence: Sequence[TimedEvent]) -> Iterable[int]:
    """For each event of a sequence the index of the event in the log that comes after it."""
    causing = _causing(log, times, sequence)
    # An event that causes nothing stands behind earlier steps, but in front of what a later one has caused.
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
    """For each event of a sequence the index of the event in the log that it has caused, if any."""
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
    """The index of what an event has caused. It has the same time, or is the first thing that happened later: what something else
    comes before has another cause."""
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
    # The text of a request begins with its API; only markers are refused without one.
    api = event.what.partition(" ")[0]
    return api if api in STEPS else "marker"
