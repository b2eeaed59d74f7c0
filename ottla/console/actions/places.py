"""A position in a topic that a user chooses: its beginning, its end, an offset, or a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

import msgspec

from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import BrokerConnections

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the last that a command accepts."""


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``number`` is the offset, or the time in ms since 1970."""

    kind: Literal["beginning", "end", "offset", "time"]
    number: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] = 0

    def offsets(self, brokers: BrokerConnections, topic: str, indexes: Iterable[int]) -> dict[int, int]:
        """Return the offset in each partition. A time is the offset of the first record with this or a later time, else the end."""
        if self.kind == "offset":
            return dict.fromkeys(indexes, self.number)
        return list_offsets(brokers, topic, indexes, {"beginning": EARLIEST, "end": LATEST}.get(self.kind, self.number))

    def text(self) -> str:
        """Return the place as commands accept it."""
        if self.kind == "offset":
            return str(self.number)
        if self.kind == "time":
            time = _EPOCH + timedelta(milliseconds=min(self.number, MAX_TIME_MS))
            return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return self.kind
