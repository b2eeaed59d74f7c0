"""Finds configs that brokers of ottla accept without effect, so that commands and the console can warn of them.

Brokers are recognised as ottla's if DescribeConfigs returns `OWN_CONFIG`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.client.admin.topics import ConfigKind, described_configs
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError
from ottla.protocol.config_effects import LISTENER_PREFIX, keys_without_effect

OWN_CONFIG: Final = "ottla.durability"
"""A broker config that every broker of ottla has, and no broker of Apache Kafka."""
UNKNOWN_TYPE: Final = 0
"""The type of a config that is set, but that the broker does not know (DescribeConfigsResponse.ConfigType)."""


def without_effect(brokers: BrokerConnections, kind: ConfigKind, name: str, keys: Iterable[str]) -> list[str]:
    """Return the keys whose values have no effect on a resource, sorted.

    The list is empty if the brokers are not ottla's, or if the client may not describe their configs. Keys that have an effect on a
    topic or group cause no request.
    """
    keys = sorted(set(keys))
    listed = [key for key in keys if _is_listed(kind, key)]
    if not (listed or (keys and kind == ConfigKind.BROKER)):
        return []
    try:
        node = name if kind == ConfigKind.BROKER and name else str(brokers.nodes()[0].node_id)
        known = {config.name: described.config_type for config, described in described_configs(brokers, ConfigKind.BROKER, node)}
    except (ClientError, OSError):
        return []
    if OWN_CONFIG not in known:
        return []
    if kind != ConfigKind.BROKER:
        return listed
    # Like Apache Kafka, ottla accepts broker configs that it does not know. They have no effect.
    unknown = (key for key in keys if not key.startswith(LISTENER_PREFIX) and known.get(key, UNKNOWN_TYPE) == UNKNOWN_TYPE)
    return sorted({*listed, *unknown})


def effect_warnings(keys: Iterable[str]) -> list[str]:
    """Return a warning for each key that `without_effect` has returned."""
    return [f"{key} has no effect in ottla" for key in keys]


def _is_listed(kind: ConfigKind, key: str) -> bool:
    listed = keys_without_effect()
    if kind != ConfigKind.BROKER or not key.startswith(LISTENER_PREFIX):
        return (kind, key) in listed
    # A key for one listener, or for one SASL mechanism of a listener, has the effect of the key without its prefix.
    of_listener = key.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return (kind, of_listener) in listed or (kind, of_listener.partition(".")[2]) in listed
