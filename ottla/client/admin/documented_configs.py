"""Describes the configs of a resource with default, type and documentation, for editors (DescribeConfigs, KIP-569)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.client.admin.topics import BROKER_DEFAULT, Config, ConfigKind, described_configs
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsResourceResult

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
"""Names of config types by number (DescribeConfigsResponse.ConfigType)."""
PROBE: Final = "ottla-asks-for-defaults"
"""Topic name in a CreateTopics request that is only validated, because its response has the defaults of topics."""


@dataclass(slots=True, frozen=True)
class DocumentedConfig:
    """A config of a resource. ``default`` is the value that applies once the resource's own value is removed; None if unknown or
    sensitive.

    ``documentation`` is empty if the broker is too old to send it.
    """

    config: Config
    default: str | None
    type: str
    documentation: str


def documented_configs(brokers: BrokerConnections, kind: ConfigKind, name: str) -> list[DocumentedConfig]:
    """Return all configs of a resource, ordered by name. Raises `KafkaAnswered`."""
    found = described_configs(brokers, kind, name, is_documented=True)
    has_own = any(config.own for config, _ in found)
    of_topics = _topic_defaults(brokers) if kind == ConfigKind.TOPIC and has_own else {}

    def default_of(config: Config, described: DescribeConfigsResourceResult) -> str | None:
        if not config.own:
            return config.value
        # Synonyms are ordered by precedence: the first is the resource's own value, the second its default.
        return of_topics.get(config.name) or next((synonym.value for synonym in described.synonyms[1:]), None)

    return [
        DocumentedConfig(
            config=config,
            default=default_of(config, described),
            type=TYPES.get(described.config_type, ""),
            documentation=described.documentation or "",
        )
        for config, described in found
    ]


def _topic_defaults(brokers: BrokerConnections) -> dict[str, str | None]:
    """Return the configs that a new topic would have (KIP-525), or nothing if the client may not create topics. DescribeConfigs
    omits some defaults, such as that of retention.ms, which comes from log.retention.hours."""
    topic = CreatableTopic(name=PROBE, num_partitions=1, replication_factor=BROKER_DEFAULT)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=round(1_000 * brokers.timeout_s), validate_only=True)
    what = "asking for the defaults of topics"
    try:
        answer = brokers.until_final(what, lambda: brokers.ask(brokers.controller(), request).topics[0])
    except ClientError:
        return {}
    return {config.name: config.value for config in answer.configs or []}
