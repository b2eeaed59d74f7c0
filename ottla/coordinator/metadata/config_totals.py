"""How much the configs of groups and subscriptions to client metrics may take, which clients set for names that need not exist."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

MAX_KEPT = 10_000
"""How many groups may have configs, and how many subscriptions to client metrics there may be. The limit is needed because a client
may set configs for names of groups and subscriptions that do not exist."""
MAX_KEPT_CHARACTERS = 10_000_000
"""The size in characters of the names and configs of all groups together, and of all subscriptions together. A single name may have
32,767 characters."""


def characters_of(name: str, configs: Mapping[str, str]) -> int:
    """The number of characters in the name and the configs of a resource; 0 for a resource without configs."""
    return len(name) + sum(len(key) + len(value) for key, value in configs.items()) if configs else 0


class ConfigTotals(msgspec.Struct):
    """How many resources of one type have configs, and how many characters their names and configs have together."""

    resources: int = 0
    characters: int = 0
