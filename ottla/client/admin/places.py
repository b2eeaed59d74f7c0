"""Positions in a topic as users write them: the beginning, the end, an offset, or a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

import msgspec

from ottla.arguments import BadArgument
from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import BrokerConnections

MAX_OFFSET: Final = (1 << 63) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the latest time that `place` accepts."""


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A position in a topic. ``number`` is the offset, or the time in ms since 1970."""

    kind: Literal["beginning", "end", "offset", "time"]
    number: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)] = 0

    def offsets(self, brokers: BrokerConnections, topic: str, indexes: Iterable[int]) -> dict[int, int]:
        """Return the offset of this position in each partition.

        A time has the offset of the first record with this or a later time; without such a record the end is returned.
        """
        indexes = list(indexes)
        if self.kind == "offset":
            return dict.fromkeys(indexes, self.number)
        return list_offsets(brokers, topic, indexes, {"beginning": EARLIEST, "end": LATEST}.get(self.kind, self.number))

    def text(self) -> str:
        """Return a text that `place` parses as this position."""
        if self.kind == "offset":
            return str(self.number)
        if self.kind == "time":
            time = _EPOCH + timedelta(milliseconds=min(self.number, MAX_TIME_MS))
            return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return self.kind


def place(text: str) -> Place:
    """Parse a position that a user has written. Raises `BadArgument`."""
    if text in ("beginning", "end"):
        return Place(kind="beginning" if text == "beginning" else "end")
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_OFFSET:
        return Place(kind="offset", number=int(text))
    ms = time_ms(text)
    if ms is not None:
        return Place(kind="time", number=ms)
    raise BadArgument(f"{text!r} is neither beginning, end, an offset nor a time such as 2026-11-23T17:00:00Z")


def time_ms(text: str) -> int | None:
    """Parse a time in ISO 8601 as ms since 1970. A time without a zone is in UTC. Returns None if the text is not a time."""
    try:
        time = datetime.fromisoformat(text)
        # ISO 8601 also allows dates of digits alone, but `place` parses digits as an offset.
        if not text.isdigit():
            return round((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1_000)
    except (ValueError, OverflowError):
        pass
    return None
