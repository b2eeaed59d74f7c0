"""Records as a client has read them, for tests without a broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.client import ConsumedRecord

ORDER = ConsumedRecord(
    topic="orders",
    partition=2,
    offset=41,
    timestamp_ms=1_700_000_000_000,
    key=b"k",
    value=b"value",
    headers=[],
    producer_id=-1,
    producer_epoch=-1,
    transactional=False,
    control=None,
)


def consumed(**fields: Any) -> ConsumedRecord:
    """Return the record `ORDER` with other values of the given fields."""
    return replace(ORDER, **fields)
