"""Config keys of Apache Kafka that ottla accepts, stores and shows, but that change nothing.

The broker logs such a key when it is set, and commands and the console warn of it.
"""

from __future__ import annotations

from functools import cache
from pkgutil import get_data
from typing import Final

RESOURCES: Final = {4: "broker", 2: "topic", 32: "group", 16: "client-metrics"}
"""The names of the resource types that have keys without effect, by number (ConfigResource.Type), as in without_effect.txt and log
lines."""
LISTENER_PREFIX: Final = "listener.name."
"""The prefix of a broker key that applies to only one listener."""


@cache
def keys_without_effect() -> frozenset[tuple[int, str]]:
    """The keys of without_effect.txt, with the type of their resource."""
    types = {name: resource_type for resource_type, name in RESOURCES.items()}
    data = get_data("ottla.protocol", "without_effect.txt")
    assert data is not None
    pairs = (line.split(" ") for line in data.decode().splitlines() if not line.startswith("#"))
    return frozenset((types[resource], name) for resource, name in pairs)
