"""CreateTopics, versions 2 to 7 (KIP-4): topics with their configs. A replication factor of one is what there is to have.

- 4 (KIP-464): -1 partitions, or a replication factor of -1, are the broker's defaults.
- 5 (KIP-525): the answer has the topic's configs.
- 7 (KIP-516): the answer has the topic's id.

Kafka authorises CREATE on the cluster or on the topic, and DESCRIBE_CONFIGS on it for the configs in the answer.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.api import Declaration, RequestContext
from ottla.broker.authorisation import authorisations
from ottla.broker.cluster import PARTITIONS_AT_ONCE, Cluster
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.settings import BrokerConfig, Settings
from ottla.broker.config.topics import validate_all
from ottla.broker.env import Randomness
from ottla.broker.handlers.config_changes import check_count
from ottla.broker.handlers.configs import topic_entries
from ottla.broker.handlers.each import Handled, counted_by_name
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.primitives import NO_UUID
from ottla.storage.steps import Pace, Steps, begun

CREATE_WORK = 500
"""What making a topic and telling of its configs takes, in the units of `storage.steps`."""


class Ports(Protocol):
    cluster: Cluster
    settings: Settings
    config: BrokerConfig
    randomness: Randomness


def handle(ports: Ports, request: CreateTopicsRequest, context: RequestContext) -> Handled[CreateTopicsResponse]:
    return begun(_in_steps(ports, request))


def _in_steps(ports: Ports, request: CreateTopicsRequest) -> Steps[CreateTopicsResponse]:
    results, pace = [], Pace(begun=True)
    for topic, times in (yield from counted_by_name(request.topics)):
        if pace.is_over(CREATE_WORK):
            yield None
        try:
            if times > 1:
                raise KafkaError(Code.INVALID_REQUEST, "Duplicate topic name.")
            results.append((yield from _create(ports, topic, request.validate_only)))
        except KafkaError as error:
            results.append(CreatableTopicResult(topic.name, NO_UUID, error.code, error.message))
    return CreateTopicsResponse(0, results)


def _create(ports: Ports, asked: CreatableTopic, validate_only: bool) -> Steps[CreatableTopicResult]:
    """The name is looked at first, then the configs, then the partitions (ReplicationControlManager.createTopics)."""
    ports.cluster.state.check_new_topic(asked.name)
    check_count(len(asked.configs))
    configs: dict[str, str] = {}
    for config in asked.configs:
        if config.value is None:
            raise KafkaError(Code.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    try:
        validate_all(configs)
    except ConfigError as error:
        raise KafkaError(Code.INVALID_CONFIG, str(error)) from None
    count = _partition_count(ports, asked)
    if validate_only:
        # Kafka tells an id here, too, though no topic gets it.
        topic_id = ports.randomness.random_uuid()
        ports.cluster.state.create_topic(asked.name, topic_id, count, configs)
    elif count <= PARTITIONS_AT_ONCE:
        topic_id = ports.cluster.create_topic(asked.name, count, configs).topic_id
    else:
        topic_id = (yield from ports.cluster.create_large_topic(asked.name, count, configs)).topic_id
    entries = [
        CreatableTopicConfigs(e.name, e.value, False, e.source, False) for e in topic_entries(ports, asked.name, overrides=configs)
    ]
    return CreatableTopicResult(asked.name, topic_id, 0, None, 0, count, 1, entries)


def _partition_count(ports: Ports, asked: CreatableTopic) -> int:
    node_id = ports.settings.node_id
    if asked.assignments:
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            raise KafkaError(
                Code.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions or replicationFactor was not -1.",
            )
        indexes = sorted(a.partition_index for a in asked.assignments)
        if indexes != list(range(len(indexes))):
            raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
        if any(a.broker_ids != [node_id] for a in asked.assignments):
            raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, f"the only broker is {node_id}")
        return len(indexes)
    if asked.replication_factor < -1 or asked.replication_factor == 0:
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if asked.replication_factor > 1:
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {asked.replication_factor} time(s): only 1 broker(s) are registered.",
        )
    if asked.num_partitions == -1:
        return ports.settings.num_partitions
    return asked.num_partitions


def failed(request: CreateTopicsRequest, version: int, code: Code) -> CreateTopicsResponse:
    return CreateTopicsResponse(0, [CreatableTopicResult(t.name, NO_UUID, code, None) for t in request.topics])


API = Declaration(
    key=19,
    handle=handle,
    failed=failed,
    authorisation=authorisations("CREATE CLUSTER, CREATE TOPIC, DESCRIBE_CONFIGS TOPIC"),
)
