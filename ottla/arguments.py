"""Parses texts, numbers and durations that people write. `ottla.addresses` parses addresses, and raises the same error."""

from __future__ import annotations

import math
import os

SECONDS_PER_DAY = 86_400


class BadArgument(ValueError):
    """A text cannot be parsed. The error's own text is one line that says what is wanted."""


def as_text(argument: str) -> str:
    """An argument of the command line, which is UTF-8 whatever the locale is.

    In a locale without letters Python hands over each of their bytes as a lone surrogate. Bytes that are no UTF-8 stay as they are.
    """
    return os.fsencode(argument).decode("utf-8", "surrogateescape")


def as_path(text: str) -> str:
    """The way back, for the path of a file: Python encodes it as the locale has it."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


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
