"""Compatibility levels: with which earlier versions a new schema is compared, and in which direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.registry.formats.parsed import MAX_REASONS, Parsed
from ottla.registry.schema_text import Version

NONE: Final = "NONE"
LEVELS: Final = (NONE, "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


def compared(level: str, versions: Sequence[Version]) -> Sequence[Version]:
    """Return those of a subject's undeleted ``versions`` with which the level compares a new schema."""
    if level == NONE:
        return ()
    return versions if level.endswith("_TRANSITIVE") else versions[-1:]


def reasons(level: str, new: Parsed, old: Parsed) -> list[str]:
    """Return why a level does not allow the schema ``new`` after ``old``. BACKWARD: programs with the new schema read data of the
    old schema; FORWARD: programs with the old schema read data of the new schema; FULL: both."""
    found: list[str] = []
    if type(new) is not type(old):
        return ["the schema has another type than the earlier one"]
    direction = level.removesuffix("_TRANSITIVE")
    if direction in ("BACKWARD", "FULL"):
        found += [f"the new schema cannot read data of the earlier one: {reason}" for reason in new.unreadable(old)]
    if direction in ("FORWARD", "FULL"):
        found += [f"the earlier schema cannot read data of the new one: {reason}" for reason in old.unreadable(new)]
    return found[:MAX_REASONS]
