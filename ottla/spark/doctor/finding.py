"""The result of one check."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """The meaning of a result: the stream works, it may not work, or it does not start."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
    """The result of a check: what was checked, what was found, and what to do if it is not ok."""

    level: Level
    check: str
    found: str
    advice: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(Level.OK, check, found)


def warning(check: str, found: str, advice: str) -> Finding:
    return Finding(Level.WARNING, check, found, advice)


def error(check: str, found: str, advice: str) -> Finding:
    return Finding(Level.ERROR, check, found, advice)
