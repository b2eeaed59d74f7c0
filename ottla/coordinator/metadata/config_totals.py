"""Limits the total size of configs for groups and client metrics subscriptions, because clients may choose any name."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

MAX_KEPT = 10_000
"""Maximum number of groups with configs, which need not exist, and maximum number of client metrics subscriptions."""
MAX_KEPT_CHARACTERS = 10_000_000
"""Maximum number of characters in the names and configs of all groups together, and of all subscriptions together. A single name
may have 32,767 characters."""


def characters_of(name: str, configs: Mapping[str, str]) -> int:
    """Return the number of characters in a resource's name and configs, or 0 without configs."""
    return len(name) + sum(len(key) + len(value) for key, value in configs.items()) if configs else 0


class ConfigTotals(msgspec.Struct):
    """The number of resources of one type with configs, and of the characters in their names and configs."""

    resources: int = 0
    characters: int = 0
