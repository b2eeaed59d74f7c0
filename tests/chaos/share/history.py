"""What the members of a share group, its producer and the observer of its start offsets have noted.

Times are those of the machine's monotonic clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[int, int]
"""Partition and offset."""
ACCEPT, RELEASE, REJECT, RENEW = "ACCEPT", "RELEASE", "REJECT", "RENEW"


class Delivery(NamedTuple):
    """A record that a member got. It was acquired between ``since_s`` and ``at_s``."""

    member: str
    since_s: float
    at_s: float
    place: Place
    number: int
    """The delivery count of this delivery."""
    value: str


@dataclass(slots=True)
class Acknowledgement:
    """``is_answered`` without an error, or with ``error``, or with neither where no answer has come."""

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
    """``sent`` are the values that the producer has sent, ``produced`` those that were acknowledged, by their places.

    ``disruptions`` are the times in which brokers failed, from the fault to the moment in which all leaders were gathered again.
    ``lags`` are the records by partition that were left in the end.
    """

    delivery_limit: int
    lock_s: float
    """How long a member has a record, unless it renews the lock."""
    sent: set[str] = field(default_factory=set)
    produced: dict[Place, str] = field(default_factory=dict)
    unplaced: set[str] = field(default_factory=set)
    """Values that were acknowledged without an offset, as a retry is that the leader takes for a duplicate."""
    deliveries: list[Delivery] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    start_offsets: list[StartOffsets] = field(default_factory=list)
    disruptions: list[tuple[float, float]] = field(default_factory=list)
    lags: dict[int, int] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def take(self, member: str, lines: Iterable[str]) -> None:
        """Add the lines of a member."""
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
