"""What the config APIs share: entries with their sources, and the rules by which they are changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.config.definitions import ConfigError, broker_definitions, topic_definitions
from broker.config.settings import OWN_DEFAULTS
from broker.config.topics import broker_fallback, validate
from coordinator.cluster import BROKER_RESOURCE, TOPIC_RESOURCE
from protocol.errors import Code, KafkaError

if TYPE_CHECKING:
    from broker.broker import Broker

DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_CLUSTER, STATIC_BROKER, DEFAULT = range(1, 6)
_TYPES = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8, "PASSWORD": 9}

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@dataclass(slots=True)
class Entry:
    """One config in force. ``synonyms`` are (name, value, source), the one in force first."""

    name: str
    value: str | None
    source: int
    type: int
    read_only: bool
    is_sensitive: bool
    synonyms: list[tuple[str, str | None, int]] = field(default_factory=list)


def topic_entries(broker: Broker, topic: str, overrides: Mapping[str, str] | None = None) -> list[Entry]:
    own = broker.cluster.state.config_of(TOPIC_RESOURCE, topic) if overrides is None else overrides
    entries = []
    for name, definition in topic_definitions().items():
        synonyms: list[tuple[str, str | None, int]] = []
        if name in own:
            synonyms.append((name, own[name], DYNAMIC_TOPIC))
        fallback = broker_fallback(name, broker.config)
        if fallback is not None:
            key, value = fallback
            given = key in broker.config.given
            synonyms.append((key, value, STATIC_BROKER if given else DEFAULT))
        if not synonyms:
            synonyms.append((name, definition.default, DEFAULT))
        _, value_in_force, source = synonyms[0]
        entries.append(Entry(name, value_in_force, source, _TYPES[definition.type], False, False, synonyms))
    return entries


def broker_entries(broker: Broker) -> list[Entry]:
    state, config = broker.cluster.state, broker.config
    dynamic = [
        (DYNAMIC_BROKER, state.config_of(BROKER_RESOURCE, str(broker.settings.node_id))),
        (DYNAMIC_CLUSTER, state.config_of(BROKER_RESOURCE, "")),
    ]
    entries = []
    for name, definition in broker_definitions().items():
        sensitive = definition.type == "PASSWORD"
        source = STATIC_BROKER if name in config.given or name in OWN_DEFAULTS else DEFAULT
        synonyms: list[tuple[str, str | None, int]] = [(name, own[name], kind) for kind, own in dynamic if name in own]
        synonyms.append((name, None if sensitive else config.static_text(name), source))
        read_only = not definition.is_dynamic
        entries.append(Entry(name, synonyms[0][1], synonyms[0][2], _TYPES[definition.type], read_only, sensitive, synonyms))
    return entries


def cluster_entries(broker: Broker) -> list[Entry]:
    """What was set for all brokers while they ran."""
    own = broker.cluster.state.config_of(BROKER_RESOURCE, "")
    known = broker_definitions()
    return [Entry(n, v, DYNAMIC_CLUSTER, _TYPES[known[n].type], False, False, [(n, v, DYNAMIC_CLUSTER)]) for n, v in own.items()]


def check_resource(broker: Broker, resource_type: int, name: str) -> None:
    """Raises UNKNOWN_TOPIC_OR_PARTITION or INVALID_REQUEST."""
    if resource_type == TOPIC_RESOURCE:
        broker.cluster.state.topic(name)
    elif resource_type == BROKER_RESOURCE:
        if name not in ("", str(broker.settings.node_id)):
            raise KafkaError(Code.INVALID_REQUEST, f"Unexpected broker id, expected {broker.settings.node_id}, but received {name}")
    else:
        raise KafkaError(Code.INVALID_REQUEST, f"Unsupported resource type {resource_type}")


def check_value(resource_type: int, name: str, value: str) -> None:
    """Raises INVALID_CONFIG."""
    try:
        if resource_type == TOPIC_RESOURCE:
            validate(name, value)
        else:
            definition = broker_definitions().get(name)
            if definition is None:
                raise ConfigError(f"unknown broker config {name!r}")
            if not definition.is_dynamic:
                raise ConfigError(f"Cannot update these configs dynamically: Set({name})")
            definition.parse(value)
    except ConfigError as error:
        raise KafkaError(Code.INVALID_CONFIG, str(error)) from None


def appended(current: str | None, value: str, *, subtract: bool) -> str:
    """A list config with elements added or taken away."""
    parts = [p for p in (current or "").split(",") if p]
    given = value.split(",")
    parts = [p for p in parts if p not in given] if subtract else parts + [p for p in given if p not in parts]
    return ",".join(parts)
