"""Finds configs that the brokers accept without effect, so that commands and the console can warn of them.

Only brokers of ottla have such configs by a known list. They are recognised by their own config, which DescribeConfigs shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.client.admin.topics import ConfigKind, described_configs
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError
from ottla.protocol.config_effects import LISTENER_PREFIX, keys_without_effect

OWN_CONFIG: Final = "ottla.durability"
"""A broker config that every broker of ottla shows, and no broker of Apache Kafka."""
UNKNOWN_TYPE: Final = 0
"""The type of a config that is set, but that the broker does not know (DescribeConfigsResponse.ConfigType)."""


def without_effect(brokers: BrokerConnections, kind: ConfigKind, name: str, keys: Iterable[str]) -> list[str]:
    """Return the keys whose values have no effect in a resource's brokers, sorted.

    The list is empty if the brokers are not ottla's, or if they do not say so, for instance because the client may not describe
    the cluster's configs. Sends no request if the keys of another resource than a broker have an effect.
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
    # As in Apache Kafka, a broker also accepts keys that it does not know. They have no effect either.
    unknown = (key for key in keys if not key.startswith(LISTENER_PREFIX) and known.get(key, UNKNOWN_TYPE) == UNKNOWN_TYPE)
    return sorted({*listed, *unknown})


def effect_warnings(keys: Iterable[str]) -> list[str]:
    """The warnings for keys that `without_effect` has found."""
    return [f"{key} has no effect in ottla" for key in keys]


def _is_listed(kind: ConfigKind, key: str) -> bool:
    listed = keys_without_effect()
    if kind != ConfigKind.BROKER or not key.startswith(LISTENER_PREFIX):
        return (kind, key) in listed
    # A key for one listener, or for one SASL mechanism of a listener, has the effect of the key without its prefix.
    of_listener = key.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return (kind, of_listener) in listed or (kind, of_listener.partition(".")[2]) in listed
