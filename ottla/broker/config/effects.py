"""The effects of Apache Kafka's config keys in ottla: each works, is refused, or is accepted without effect, which is logged."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ottla.broker.config.client_metrics import CLIENT_METRICS_DEFINITIONS
from ottla.broker.config.definitions import Definition, broker_definition, broker_definitions, topic_definitions
from ottla.broker.config.groups import group_definitions
from ottla.broker.config.settings import KERBEROS_PREFIX
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.protocol.config_effects import LISTENER_PREFIX, keys_without_effect

_REFUSED = {(TOPIC_RESOURCE, "remote.storage.enable")}
"""Keys for which ottla refuses every value that would have an effect in Kafka, besides the keys with `settings.KERBEROS_PREFIX`."""


class ConfigEffect(Enum):
    """The effect of setting a config key."""

    WORKS = "works"
    REFUSED = "refused"
    NONE = "none"


def definitions(resource_type: int) -> dict[str, Definition]:
    if resource_type == BROKER_RESOURCE:
        return broker_definitions()
    if resource_type == TOPIC_RESOURCE:
        return topic_definitions()
    return group_definitions() if resource_type == GROUP_RESOURCE else CLIENT_METRICS_DEFINITIONS


def effect_of(resource_type: int, name: str) -> ConfigEffect:
    """The effect of setting a key. Kafka and ottla accept unknown broker keys, which have no effect.

    A key for one listener has the effect of the key without its prefix.
    """
    if resource_type == BROKER_RESOURCE and name.startswith(LISTENER_PREFIX):
        definition = broker_definition(name)
        name = name if definition is None else definition.name
    if (resource_type, name) in keys_without_effect() or name not in definitions(resource_type):
        return ConfigEffect.NONE
    is_refused = (resource_type, name) in _REFUSED or (resource_type == BROKER_RESOURCE and name.startswith(KERBEROS_PREFIX))
    return ConfigEffect.REFUSED if is_refused else ConfigEffect.WORKS


def without_effect(resource_type: int, names: Iterable[str]) -> list[str]:
    """Select the config keys that have no effect, sorted."""
    return sorted(name for name in names if effect_of(resource_type, name) is ConfigEffect.NONE)
