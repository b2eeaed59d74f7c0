"""Parses texts, numbers and durations of the command line."""

from __future__ import annotations

import math
import os

SECONDS_PER_DAY = 86_400


class BadArgument(ValueError):
    """A text cannot be parsed. The message is one line with the expected form."""


def as_text(argument: str) -> str:
    """Decode an argument of the command line as UTF-8, in every locale. Invalid bytes become lone surrogates.

    In an ASCII locale Python itself decodes all bytes above 127 as lone surrogates.
    """
    return os.fsencode(argument).decode("utf-8", "surrogateescape")


def as_path(text: str) -> str:
    """Return a text of `as_text` as a path for Python's file functions, which encode paths by the locale."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def count(text: str) -> int:
    """Parse a count of at least one. Raises `BadArgument`."""
    if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) < 1:
        raise BadArgument(f"{text!r} is not a number of 1 or more")
    return int(text)


def seconds(text: str) -> float:
    """Parse a time in seconds, above 0 and at most a day. Raises `BadArgument`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= SECONDS_PER_DAY:
        raise BadArgument(f"{text!r} is not a number of seconds above 0")
    return value
