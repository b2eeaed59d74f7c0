"""Parses numbers and durations that people write. `ottla.addresses` parses addresses, and raises the same error."""

from __future__ import annotations

import math

SECONDS_PER_DAY = 86_400


class BadArgument(ValueError):
    """A text cannot be parsed. The error's own text is one line that says what is wanted."""


def count(text: str) -> int:
    """The number of things in a text, at least one. Raises `BadArgument`."""
    if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) < 1:
        raise BadArgument(f"{text!r} is not a number of 1 or more")
    return int(text)


def seconds(text: str) -> float:
    """The time in a text in seconds, above 0 and at most a day. Raises `BadArgument`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= SECONDS_PER_DAY:
        raise BadArgument(f"{text!r} is not a number of seconds above 0")
    return value
