"""The history of a share group: events recorded by its members, its producer and the observer of its start offsets.

Times are from the machine's monotonic clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[int, int]
"""Partition and offset of a record."""
ACCEPT, RELEASE, REJECT, RENEW = "ACCEPT", "RELEASE", "REJECT", "RENEW"


class Delivery(NamedTuple):
    """The delivery of a record to a member, which acquired the record between ``since_s`` and ``at_s``."""

    member: str
    since_s: float
    at_s: float
    place: Place
    number: int
    """The delivery count that the member received with the record."""
    value: str


@dataclass(slots=True)
class Acknowledgement:
    """An acknowledgement by a member. ``answered_s`` is None if no response arrived; ``error`` is the error in the response."""

    member: str
    asked_s: float
    place: Place
    count: int
    kind: str
    answered_s: float | None = None
    error: str | None = None

    @property
    def is_confirmed(self) -> bool:
        return self.answered_s is not None and self.error is None


class StartOffsets(NamedTuple):
    """Start offsets of a group by partition, requested at ``asked_s``."""

    asked_s: float
    answered_s: float
    offsets: dict[int, int]


@dataclass(slots=True)
class ShareHistory:
    """The history of one share group.

    ``sent`` has all values that the producer sent, and ``produced`` the acknowledged values by partition and offset.
    ``disruptions`` are periods of broker failures, each from the fault until one broker led all partitions again. ``lags`` has the
    final lag by partition.
    """

    delivery_limit: int
    lock_s: float
    """Duration of the lock on an acquired record, in seconds, unless the member renews it."""
    sent: set[str] = field(default_factory=set)
    produced: dict[Place, str] = field(default_factory=dict)
    unplaced: set[str] = field(default_factory=set)
    """Values that were acknowledged without an offset, because the leader treated a retried batch as a duplicate."""
    deliveries: list[Delivery] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    start_offsets: list[StartOffsets] = field(default_factory=list)
    disruptions: list[tuple[float, float]] = field(default_factory=list)
    lags: dict[int, int] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def take(self, member: str, lines: Iterable[str]) -> None:
        """Parse the output lines of a member and add their events to the history."""
        open_by: dict[tuple[Place, int], Acknowledgement] = {}
        for line in lines:
            word, *parts = line.split(" ")
            if word == "got":
                since_ns, at_ns, partition, offset, count = map(int, parts[:5])
                self.deliveries.append(Delivery(member, since_ns / 1e9, at_ns / 1e9, (partition, offset), count, parts[5]))
            elif word == "trouble":
                self.troubles.append(f"{member}: {' '.join(parts[1:])}")
            elif word in ("want", "done", "refused"):
                at_ns, partition, offset, count = map(int, parts[:4])
                key = ((partition, offset), count)
                if word == "want":
                    asked = open_by[key] = Acknowledgement(member, at_ns / 1e9, key[0], count, parts[4])
                    self.acknowledgements.append(asked)
                elif key in open_by:
                    open_by[key].answered_s = at_ns / 1e9
                    open_by[key].error = parts[5] if word == "refused" else None
