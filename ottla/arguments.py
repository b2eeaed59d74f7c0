"""What people write for a program to read: how many, and for how long. `ottla.addresses` has the addresses, with the same error."""

from __future__ import annotations

import math

SECONDS_PER_DAY = 86_400


class BadArgument(ValueError):
    """A text that is not what was asked for; its own text is one line that says what is wanted."""


def count(text: str) -> int:
    """A number of things, one at least. Raises `BadArgument`."""
    if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) < 1:
        raise BadArgument(f"{text!r} is not a number of 1 or more")
    return int(text)


def seconds(text: str) -> float:
    """A time above 0, at most a day. Raises `BadArgument`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= SECONDS_PER_DAY:
        raise BadArgument(f"{text!r} is not a number of seconds above 0")
    return value
