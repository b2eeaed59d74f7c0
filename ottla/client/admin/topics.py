"""Creates, lists, describes and deletes topics, adds partitions, and reads and changes configs of resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from shlex import quote
from typing import Final

from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError, KafkaAnswered, UnknownTopic, check
from ottla.client.wire.connection import BrokerConnection
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataResponseTopic

BROKER_DEFAULT: Final = -1
"""The value that selects the brokers' default number of partitions or replicas (KIP-464)."""
SET, DELETE = 0, 1
"""Operations of IncrementalAlterConfigs."""


class ConfigKind(IntEnum):
    """The types of resources with configs (org.apache.kafka.common.config.ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "brokers' default",
    4: "static",
    5: "default",
    6: "broker-logger",
    7: "client-metrics",
    8: "group",
}
"""Names of the sources of a config's value, by number (DescribeConfigsResponse.ConfigSource)."""
_OWN: Final = {1, 2, 3, 6, 7, 8}
"""Sources of values that were set by a request."""


@dataclass(slots=True, frozen=True)
class TopicListing:
    name: str
    topic_id: bytes
    partitions: int
    replicas: int
    internal: bool


@dataclass(slots=True, frozen=True)
class PartitionDescription:
    """A partition of a topic. ``last_stable_offset`` is the offset up to which read_committed consumers read.

    Without a leader, ``leader`` is -1 and the offsets are None.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    log_start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None


@dataclass(slots=True, frozen=True)
class Config:
    """A config of a resource. ``value`` is None for a sensitive config. ``own`` is true if the value was set for this resource."""

    name: str
    value: str | None
    source: str
    own: bool
    read_only: bool
    sensitive: bool


@dataclass(slots=True, frozen=True)
class TopicDescription:
    name: str
    topic_id: bytes
    internal: bool
    partitions: list[PartitionDescription]
    configs: list[Config]


def create(
    brokers: BrokerConnections,
    name: str,
    partitions: int = BROKER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    replication_factor: int = BROKER_DEFAULT,
) -> None:
    """Create a topic, and wait until all partitions have leaders. Raises `KafkaAnswered`, for instance if the topic exists."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=str(value)) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=round(1_000 * brokers.timeout_s))
    what = f"creating topic {name!r}"

    def attempt() -> None:
        result = brokers.ask(brokers.controller(), request).topics[0]
        if result.error_code == Code.TOPIC_ALREADY_EXISTS:
            raise KafkaAnswered(f"topic {name!r} already exists", result.error_code, f"ottla topic describe {quote(name)} shows it")
        check(what, result.error_code, result.error_message)

    brokers.until_final(what, attempt)
    # The controller responds at once, but other brokers may not know the topic yet.
    wait_for_leaders(brokers, name)


def wait_for_leaders(brokers: BrokerConnections, name: str, count: int = 1) -> None:
    """Wait until a topic has at least ``count`` partitions, and all have leaders. Raises `KafkaAnswered` after the timeout."""
    brokers.until_final(f"waiting for the leaders of topic {name!r}", lambda: _check_leaders(brokers, name, count))


def _check_leaders(brokers: BrokerConnections, name: str, count: int) -> None:
    try:
        if len(brokers.leaders(name)) < count:
            raise KafkaAnswered(f"topic {name!r}", Code.LEADER_NOT_AVAILABLE)
    except UnknownTopic:
        # The broker may not know a new topic yet, so an unknown topic is retried like a missing leader.
        raise KafkaAnswered(f"topic {name!r}", Code.LEADER_NOT_AVAILABLE) from None


def delete(brokers: BrokerConnections, name: str) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=round(1_000 * brokers.timeout_s)
    )

    def attempt() -> None:
        result = brokers.ask(brokers.controller(), request).responses[0]
        if result.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise _unknown(brokers, name)
        check(f"deleting topic {name!r}", result.error_code, result.error_message)

    brokers.until_final(f"deleting topic {name!r}", attempt)


def existing(brokers: BrokerConnections, names: Sequence[str]) -> list[MetadataResponseTopic]:
    """Return the metadata of the topics. Raises `UnknownTopic` if one of them does not exist."""
    metadata = brokers.until_final("looking for the topics", lambda: brokers.metadata(list(names)))
    for topic in metadata.topics:
        if topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise _unknown(brokers, topic.name or "")
    return metadata.topics


def add_partitions(brokers: BrokerConnections, name: str, count: int) -> None:
    """Increase the number of a topic's partitions to ``count``, and wait until all have leaders. Raises `KafkaAnswered`."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=round(1_000 * brokers.timeout_s))
    what = f"adding partitions to topic {name!r}"

    def attempt() -> None:
        result = brokers.ask(brokers.controller(), request).results[0]
        if result.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise _unknown(brokers, name)
        check(what, result.error_code, result.error_message)

    brokers.until_final(what, attempt)
    wait_for_leaders(brokers, name, count)


def _unknown(brokers: BrokerConnections, name: str) -> UnknownTopic:
    message = "ottla topic list shows the topics"
    return UnknownTopic(f"unknown topic {name!r} at {brokers.bootstrap}", Code.UNKNOWN_TOPIC_OR_PARTITION, message)


def list_topics(brokers: BrokerConnections, *, internal: bool = False) -> list[TopicListing]:
    """List topics, ordered by name; with ``internal`` including the coordinators' topics."""
    metadata = brokers.until_final("asking for the topics", lambda: brokers.metadata(None))
    listings = [
        TopicListing(
            name=topic.name or "",
            topic_id=topic.topic_id,
            partitions=len(topic.partitions),
            replicas=max((len(p.replica_nodes) for p in topic.partitions), default=0),
            internal=topic.is_internal,
        )
        for topic in metadata.topics
        if internal or not topic.is_internal
    ]
    return sorted(listings, key=lambda listing: listing.name)


def describe(brokers: BrokerConnections, name: str) -> TopicDescription:
    """Describe a topic. Raises `KafkaAnswered`, such as `UnknownTopic`."""
    metadata = brokers.until_final(f"looking for topic {name!r}", lambda: brokers.metadata([name]))
    topic = brokers.topic_of(metadata, name)
    partitions = sorted(topic.partitions, key=lambda p: p.partition_index)
    indexes = [p.partition_index for p in partitions if p.leader_id >= 0]
    starts = list_offsets(brokers, name, indexes, EARLIEST)
    stable = list_offsets(brokers, name, indexes, LATEST, committed=True)
    ends = list_offsets(brokers, name, indexes, LATEST)
    return TopicDescription(
        name=name,
        topic_id=topic.topic_id,
        internal=topic.is_internal,
        partitions=[
            PartitionDescription(
                partition=p.partition_index,
                leader=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=p.replica_nodes,
                in_sync=p.isr_nodes,
                log_start_offset=starts.get(p.partition_index),
                last_stable_offset=stable.get(p.partition_index),
                high_watermark=ends.get(p.partition_index),
            )
            for p in partitions
        ],
        configs=get_configs(brokers, ConfigKind.TOPIC, name),
    )


def get_configs(brokers: BrokerConnections, kind: ConfigKind, name: str) -> list[Config]:
    """Return all configs of a resource, ordered by name. Raises `KafkaAnswered`."""
    return [config for config, _ in described_configs(brokers, kind, name)]


def described_configs(
    brokers: BrokerConnections, kind: ConfigKind, name: str, *, is_documented: bool = False
) -> list[tuple[Config, DescribeConfigsResourceResult]]:
    """Return what `get_configs` returns, each config with its entry in the response. ``is_documented`` adds synonyms and
    documentation to the entries."""
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)],
        include_synonyms=is_documented,
        include_documentation=is_documented,
    )
    what = f"asking for the configs of {_resource(kind, name)}"

    def attempt() -> list[tuple[Config, DescribeConfigsResourceResult]]:
        result = brokers.ask(_whose(brokers, kind, name), request).results[0]
        check(what, result.error_code, result.error_message)
        configs = [
            Config(
                name=c.name,
                value=c.value,
                source=SOURCES.get(c.config_source, str(c.config_source)),
                own=c.config_source in _OWN and not (kind == ConfigKind.TOPIC and c.config_source != 1),
                read_only=c.read_only,
                sensitive=c.is_sensitive,
            )
            for c in result.configs
        ]
        return sorted(zip(configs, result.configs, strict=True), key=lambda pair: pair[0].name)

    return brokers.until_final(what, attempt)


def set_configs(brokers: BrokerConnections, kind: ConfigKind, name: str, values: Mapping[str, str | None]) -> None:
    """Set configs of a resource. The value None removes the resource's own value, so that the default applies. Raises
    `KafkaAnswered`."""
    configs = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value) for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    what = f"setting configs of {_resource(kind, name)}"

    def attempt() -> None:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        result = brokers.ask(_whose(brokers, kind, name), request).responses[0]
        check(what, result.error_code, result.error_message)

    brokers.until_final(what, attempt)


def _resource(kind: ConfigKind, name: str) -> str:
    return f"{kind.name.lower().replace('_', '-')} {name!r}"


def _whose(brokers: BrokerConnections, kind: ConfigKind, name: str) -> BrokerConnection:
    """Return the connection for requests about a resource's configs: to the broker itself for a broker's configs, else to the
    controller."""
    if kind not in (ConfigKind.BROKER, ConfigKind.BROKER_LOGGER) or not name:
        return brokers.controller()
    nodes = {str(node.node_id): node for node in brokers.nodes()}
    if name not in nodes:
        raise ClientError(f"unknown broker {name!r} at {brokers.bootstrap}; the brokers are {', '.join(nodes)}")
    return brokers.node(nodes[name])
