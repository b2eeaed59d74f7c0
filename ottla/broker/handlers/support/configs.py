"""The current configs with their sources and synonyms, as DescribeConfigs shows them (kafka.server.ConfigHelper)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from ottla.broker.config.client_metrics import CLIENT_METRICS_DEFINITIONS
from ottla.broker.config.definitions import Definition, broker_defaults, broker_definition, broker_definitions, topic_definitions
from ottla.broker.config.groups import effective_group, group_definitions
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.topics import effective
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE

DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_CLUSTER, STATIC_BROKER, DEFAULT = range(1, 6)
DYNAMIC_LOGGER, DYNAMIC_CLIENT_METRICS, DYNAMIC_GROUP = range(6, 9)
_TYPES = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8, "PASSWORD": 9}
UNKNOWN_TYPE = 0

Synonym = tuple[str, str | None, int]
"""Name, value and source of a config that may set another config's value."""

Places = list[tuple[int, Mapping[str, str]]]
"""Pairs of a source of broker configs and the configs that the source sets, highest precedence first."""


class Ports(Protocol):
    cluster: ClusterCommands
    live_config: LiveConfig


class ConfigEntry(msgspec.Struct, kw_only=True):
    """One config. ``synonyms`` are all configs that set its value, highest precedence first; the first one wins."""

    name: str
    value: str | None
    type: int
    read_only: bool
    is_sensitive: bool
    scope: str
    """The documentation table of the config: B for broker configs, T for topic configs. Empty if ``documentation`` has the text."""
    documentation: str | None = None
    source_alone: int = DEFAULT
    """The source of the value if there are no synonyms."""
    synonyms: list[Synonym] = msgspec.field(default_factory=list)

    @property
    def source(self) -> int:
        return self.synonyms[0][2] if self.synonyms else self.source_alone


def topic_entries(ports: Ports, topic: str, overrides: Mapping[str, str] | None = None) -> list[ConfigEntry]:
    own = ports.cluster.state.config_of(TOPIC_RESOURCE, topic) if overrides is None else overrides
    places = _places(ports)
    entries = []
    for name, definition in topic_definitions().items():
        if definition.is_internal and name not in own:
            continue
        synonyms = _broker_synonyms(places, definition.synonyms[0]) if definition.synonyms else []
        text = effective(name, own, ports.live_config.current)
        value = None if text is None else definition.canonical(text)
        if name in own:
            synonyms.insert(0, (name, value, DYNAMIC_TOPIC))
        entries.append(
            ConfigEntry(
                name=name,
                value=value,
                type=_TYPES[definition.type],
                read_only=False,
                is_sensitive=False,
                scope="T",
                synonyms=synonyms,
            )
        )
    return entries


def group_entries(ports: Ports, group: str) -> list[ConfigEntry]:
    """The configs of a group. The group need not exist."""
    own, places = ports.cluster.state.config_of(GROUP_RESOURCE, group), _places(ports)
    entries = []
    for name, definition in group_definitions().items():
        if definition.is_internal and name not in own:
            continue
        text = effective_group(name, own, ports.live_config.current)
        # For a group config whose default is no broker config, Kafka lists the group config as its own synonym.
        synonyms = [(synonym, definition.default, DEFAULT) for synonym in definition.synonyms or (name,)]
        if definition.synonyms and definition.synonyms[0] in broker_definitions():
            synonyms = _broker_synonyms(places, definition.synonyms[0])
        if name in own:
            synonyms = [(name, text, DYNAMIC_GROUP), *synonyms]
        entries.append(_kept_entry(definition, text, synonyms))
    return entries


def client_metrics_entries(ports: Ports, name: str) -> list[ConfigEntry]:
    """The configs of a client metrics subscription. The subscription need not exist."""
    own = ports.cluster.state.config_of(CLIENT_METRICS_RESOURCE, name)
    entries = []
    for key, definition in CLIENT_METRICS_DEFINITIONS.items():
        synonyms: list[Synonym] = [(key, own[key], DYNAMIC_CLIENT_METRICS)] if key in own else []
        entries.append(_kept_entry(definition, own.get(key, definition.default), synonyms))
    return entries


def _kept_entry(definition: Definition, value: str | None, synonyms: list[Synonym]) -> ConfigEntry:
    return ConfigEntry(
        name=definition.name,
        value=value,
        type=_TYPES[definition.type],
        read_only=False,
        is_sensitive=False,
        scope="",
        documentation=definition.documentation,
        synonyms=synonyms,
    )


def broker_entries(ports: Ports) -> list[ConfigEntry]:
    """The configs of this broker, including internal configs if they are set."""
    config, known = ports.live_config.current, broker_definitions()
    names = [name for name, d in known.items() if not d.is_internal or name in config.given or name in config.dynamic]
    names += [name for name in config.dynamic if name not in known]
    static, places = config.static, _places(ports)
    return [_broker_entry(places, name, config.dynamic.get(name, static.get(name))) for name in names]


def cluster_entries(ports: Ports) -> list[ConfigEntry]:
    """The dynamic configs that are set for all brokers."""
    own = ports.cluster.state.config_of(BROKER_RESOURCE, "")
    places = _places(ports)
    entries = [_broker_entry(places, name, value) for name, value in own.items()]
    for entry in entries:
        entry.synonyms = [s for s in entry.synonyms if s[2] == DYNAMIC_CLUSTER]
    return entries


def _broker_entry(places: Places, name: str, text: str | None) -> ConfigEntry:
    definition = broker_definition(name)
    if definition is not None:
        text = definition.default if text is None else text
    sensitive = _is_sensitive(definition)
    value = None if sensitive or text is None or definition is None else definition.canonical(text)
    return ConfigEntry(
        name=name,
        value=value,
        type=UNKNOWN_TYPE if definition is None else _TYPES[definition.type],
        read_only=definition is None or definition.name != name or not definition.is_dynamic,
        is_sensitive=sensitive,
        scope="B",
        synonyms=_broker_synonyms(places, name),
    )


def _is_sensitive(definition: Definition | None) -> bool:
    """Whether to hide a config's value. A config of unknown type may be a secret (KafkaConfig.maybeSensitive)."""
    return definition is None or definition.type == "PASSWORD"


def _places(ports: Ports) -> Places:
    state = ports.cluster.state
    return [
        (DYNAMIC_BROKER, state.config_of(BROKER_RESOURCE, str(ports.live_config.settings.node_id))),
        (DYNAMIC_CLUSTER, state.config_of(BROKER_RESOURCE, "")),
        (STATIC_BROKER, ports.live_config.current.static),
        (DEFAULT, broker_defaults()),
    ]


def _broker_synonyms(places: Places, name: str) -> list[Synonym]:
    """The synonyms that set a broker config's value. A synonym is left out if its source takes precedence over all sources of the
    config itself.

    The order is that of Kafka's ConfigHelper.configSynonyms.
    """
    definition = broker_definition(name)
    names = (definition.synonyms if definition is not None and definition.name == name else ()) or (name,)
    sensitive = _is_sensitive(definition)
    synonyms: list[Synonym] = []
    for source, values in places:
        for candidate in names:
            if candidate in values and (synonyms or candidate == name):
                synonyms.append((candidate, None if sensitive else values[candidate], source))
    return synonyms
