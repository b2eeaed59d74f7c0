"""One part of a long list, so that a page of the console is small whatever the broker holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from ottla.console.page_request import Asked

ROWS_SHOWN: Final = 100
"""How many rows of a list one page of the console has."""

T = TypeVar("T")


def first_of(listed: Sequence[T], most: int) -> list[T | str]:
    """The first of a list, at most so many, and behind them how many more there are."""
    more = len(listed) - most
    return list(listed) if more <= 0 else [*listed[:most], f"and {more:,} more"]


class PageRows(msgspec.Struct, frozen=True, kw_only=True):
    """``rows`` begin at the number ``start`` of ``total``."""

    start: int
    limit: int
    total: int
    rows: list[Any]


def matching(listed: Sequence[T], asked: Asked, name: Callable[[T], str]) -> Sequence[T]:
    """Those whose name contains the query's ``match``."""
    match = asked.query.get("match", "")
    return [one for one in listed if match in name(one)] if match else listed


def part_of(listed: Sequence[T], asked: Asked) -> PageRows:
    """The rows from the query's number ``start`` on. Raises `Refused`."""
    start = asked.number("start")
    if start >= len(listed):
        # The list may have become shorter since the page was opened.
        start = 0
    return PageRows(start=start, limit=ROWS_SHOWN, total=len(listed), rows=list(listed[start : start + ROWS_SHOWN]))
