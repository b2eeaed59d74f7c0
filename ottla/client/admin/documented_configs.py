"""Configs of a resource as a person edits them: with default, type and documentation (DescribeConfigs, KIP-569)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.client.admin.topics import Config, ConfigKind, described_configs
from ottla.client.cluster import BrokerConnections

TYPES: Final = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
"""The types of configs (DescribeConfigsResponse.ConfigType)."""


@dataclass(slots=True, frozen=True)
class DocumentedConfig:
    """A config with the value that applies if its own value is removed (``default``; None if unknown or sensitive).

    ``documentation`` is empty if the broker is too old to send it.
    """

    config: Config
    default: str | None
    type: str
    documentation: str


def documented_configs(brokers: BrokerConnections, kind: ConfigKind, name: str) -> list[DocumentedConfig]:
    """Return all configs of a resource, ordered by name. Raises `KafkaAnswered`."""
    return [
        DocumentedConfig(
            config=config,
            # The synonyms are ordered by precedence, and begin with the own value.
            default=next((s.value for s in described.synonyms[1:]), None) if config.own else config.value,
            type=TYPES.get(described.config_type, ""),
            documentation=described.documentation or "",
        )
        for config, described in described_configs(brokers, kind, name, is_documented=True)
    ]
