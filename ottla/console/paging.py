"""Selects the rows of a long list that one page shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from ottla.console.page_request import Asked

ROWS_SHOWN: Final = 100

T = TypeVar("T")


def first_of(listed: Sequence[T], most: int) -> list[T | str]:
    """Return the first ``most`` items of a list, followed by a text with the number of further items."""
    more = len(listed) - most
    return list(listed) if more <= 0 else [*listed[:most], f"and {more:,} more"]


class PageRows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one page: at most ``limit`` of ``total`` rows, from row ``start`` on."""

    start: int
    limit: int
    total: int
    rows: list[Any]


def matching(listed: Sequence[T], asked: Asked, name: Callable[[T], str]) -> Sequence[T]:
    """Return the items whose name contains the query's ``match``."""
    match = asked.query.get("match", "")
    return [one for one in listed if match in name(one)] if match else listed


def part_of(listed: Sequence[T], asked: Asked) -> PageRows:
    """Return the rows from the query's ``start`` on. Raises `CommandRefused`."""
    start = asked.number("start")
    if start >= len(listed):
        # The list has become shorter since the user's last request, so show its beginning.
        start = 0
    return PageRows(start=start, limit=ROWS_SHOWN, total=len(listed), rows=list(listed[start : start + ROWS_SHOWN]))
