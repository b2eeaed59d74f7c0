"""What the config keys of Apache Kafka do in ottla: each works, is refused, or is accepted without effect, which is logged."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import cache

from ottla.broker.config.client_metrics import CLIENT_METRICS_DEFINITIONS
from ottla.broker.config.definitions import Definition, broker_definitions, lines_of, topic_definitions
from ottla.broker.config.groups import group_definitions
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE

RESOURCES = {BROKER_RESOURCE: "broker", TOPIC_RESOURCE: "topic", GROUP_RESOURCE: "group", CLIENT_METRICS_RESOURCE: "client-metrics"}
"""The types of resources that have configs, by number, as without_effect.txt and log lines name them."""
_REFUSED = {(TOPIC_RESOURCE, "remote.storage.enable")}
"""Keys of which every value is refused that would have an effect in Kafka."""


class Effect(Enum):
    """What setting a key does."""

    WORKS = "works"
    REFUSED = "refused"
    NONE = "none"


def definitions(resource_type: int) -> dict[str, Definition]:
    """All keys of a type of resources."""
    if resource_type == BROKER_RESOURCE:
        return broker_definitions()
    if resource_type == TOPIC_RESOURCE:
        return topic_definitions()
    return group_definitions() if resource_type == GROUP_RESOURCE else CLIENT_METRICS_DEFINITIONS


@cache
def listed() -> frozenset[tuple[int, str]]:
    """The keys of without_effect.txt, with the type of their resource."""
    types = {name: resource_type for resource_type, name in RESOURCES.items()}
    pairs = (line.split(" ") for line in lines_of("without_effect.txt"))
    return frozenset((types[resource], name) for resource, name in pairs)


def effect_of(resource_type: int, name: str) -> Effect:
    """What setting a key does. Broker keys that Kafka does not know either are accepted by it as well, and have no effect here."""
    if (resource_type, name) in listed() or name not in definitions(resource_type):
        return Effect.NONE
    return Effect.REFUSED if (resource_type, name) in _REFUSED else Effect.WORKS


def without_effect(resource_type: int, names: Iterable[str]) -> list[str]:
    """Those of the keys that have no effect."""
    return sorted(name for name in names if effect_of(resource_type, name) is Effect.NONE)
