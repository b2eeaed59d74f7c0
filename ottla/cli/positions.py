"""Parses positions in a topic: ``beginning``, ``end``, an offset, or a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from ottla.arguments import BadArgument
from ottla.cli.options import Checked

if TYPE_CHECKING:
    from ottla.client.cluster import BrokerConnections

MAX_OFFSET = (1 << 63) - 1


@dataclass(slots=True, frozen=True)
class Position:
    """A position in a topic. ``number`` is the offset, or the time in ms since 1970."""

    kind: Literal["beginning", "end", "offset", "time"]
    number: int = 0

    def offsets(self, brokers: BrokerConnections, topic: str, indexes: Iterable[int]) -> dict[int, int]:
        """Return the offset in each partition that the position resolves to.

        The offset of a time is that of the first record with this or a later time, or the end of a partition without such a record.
        """
        from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets

        indexes = list(indexes)
        if self.kind == "offset":
            return dict.fromkeys(indexes, self.number)
        timestamp = {"beginning": EARLIEST, "end": LATEST}.get(self.kind, self.number)
        return list_offsets(brokers, topic, indexes, timestamp)


def place(text: str) -> Position:
    """Parse a position. Raises `BadArgument`."""
    if text in ("beginning", "end"):
        return Position(kind="beginning" if text == "beginning" else "end")
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_OFFSET:
        return Position(kind="offset", number=int(text))
    ms = time_ms(text)
    if ms is not None:
        return Position(kind="time", number=ms)
    raise BadArgument(f"{text!r} is neither beginning, end, an offset nor a time such as 2026-11-23T17:00:00Z")


def time_ms(text: str) -> int | None:
    """Parse a time in ISO 8601 as ms since 1970, in UTC unless it has a zone. Returns None if the text is not a time."""
    try:
        time = datetime.fromisoformat(text)
        # ISO 8601 also allows dates of digits alone, but here digits are a number.
        if not text.isdigit():
            return round((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1_000)
    except (ValueError, OverflowError):
        pass
    return None


PLACE = Checked("place", place)
