"""CreateTopics, versions 2 to 7 (KIP-4): creates topics with their configs. The broker or the client assigns replicas.

- 4 (KIP-464): -1 partitions, or a replication factor of -1, means the broker's default.
- 5 (KIP-525): the response has the topic's configs.
- 6 (KIP-599): topics beyond ``controller_mutation_rate`` get THROTTLING_QUOTA_EXCEEDED; in older versions the client is only
  throttled.
- 7 (KIP-516): the response has the topic's id.

Kafka authorises CREATE on the cluster or on the topic, and DESCRIBE_CONFIGS on the topic for the configs in the response.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.topics import validate_all
from ottla.broker.handlers.support.config_changes import check_count
from ottla.broker.handlers.support.configs import topic_entries
from ottla.broker.handlers.support.each import counted_by_name
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement, RecordMutation, unlimited
from ottla.broker.loop.env import Randomness
from ottla.broker.metadata.cluster import PARTITIONS_AT_ONCE, ClusterCommands
from ottla.broker.metadata.placement import Place, Placement
from ottla.coordinator.metadata.cluster import TOPIC_RESOURCE
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.metadata.topics import check_partition_count
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType

STRICT_FROM = 6
"""The first version that refuses topics beyond the client's quota (KIP-599)."""
CREATE_WORK = 500
"""Estimated time to create a topic and to list its configs in the response, in units of 2 us."""


class CreationPorts(Protocol):
    cluster: ClusterCommands
    live_config: LiveConfig
    randomness: Randomness

    @property
    def placement(self) -> Placement: ...


class Ports(CreationPorts, Protocol):
    authorizer: RequestAuthorizer
    quotas: ClientQuotaEnforcement


async def handle(ports: Ports, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    results, pace = [], Pace(double_first=True)
    authorizer = ports.authorizer
    quota = ports.quotas.mutation_quota(context, strict_from=STRICT_FROM)
    may_create_all = authorizer.allows(context, AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False)
    for topic, times in await counted_by_name(request.topics):
        if pace.spend(CREATE_WORK):
            await next_turn()
        try:
            if times > 1:
                raise KafkaError(Code.INVALID_REQUEST, "Duplicate topic name.")
            # As in Kafka, a topic with the name of the metadata log gets INVALID_REQUEST, even if the client may not create topics.
            is_allowed = may_create_all or topic.name == METADATA_TOPIC
            if not is_allowed and not authorizer.allows(context, AclOperation.CREATE, ResourceType.TOPIC, topic.name):
                raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            created = await create(ports, topic, validate_only=request.validate_only, record=quota.record)
            if not authorizer.allows(context, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, logs_denied=False):
                created = CreatableTopicResult(
                    name=topic.name,
                    topic_id=created.topic_id,
                    error_message=None,
                    topic_config_error_code=Code.TOPIC_AUTHORIZATION_FAILED,
                    num_partitions=-1,
                    replication_factor=-1,
                )
            results.append(created)
        except KafkaError as error:
            results.append(
                CreatableTopicResult(name=topic.name, topic_id=NO_UUID, error_code=error.code, error_message=error.message)
            )
    return CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=results)


async def create(
    ports: CreationPorts, asked: CreatableTopic, *, validate_only: bool = False, record: RecordMutation = unlimited
) -> CreatableTopicResult:
    """Create a topic. Its name is checked first, then its configs, its partitions, and the client's quota
    (ReplicationControlManager.createTopics). As in Kafka a request that only validates uses the quota as well.

    ``record`` charges the number of partitions to the quota. On `KafkaError` nothing has changed.
    """
    ports.cluster.state.check_new_topic(asked.name)
    check_count(len(asked.configs))
    configs: dict[str, str] = {}
    for config in asked.configs:
        if config.value is None:
            raise KafkaError(Code.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    try:
        validate_all(configs, ports.live_config.current)
    except ConfigError as error:
        raise KafkaError(Code.INVALID_CONFIG, str(error)) from None
    count, place = _placing(ports, asked)
    if validate_only:
        # As in Kafka, the response to a request that only validates has a topic id, although no topic is created.
        topic = ports.cluster.state.create_topic(asked.name, ports.randomness.random_uuid(), count, configs, place()).response
        record(count)
    elif count <= PARTITIONS_AT_ONCE:
        topic = ports.cluster.create_topic(asked.name, count, configs, place, lambda: record(count))
    else:
        topic = await ports.cluster.create_large_topic(asked.name, count, configs, place, lambda: record(count))
    if not validate_only:
        ports.live_config.report_without_effect(TOPIC_RESOURCE, configs)
    entries = [
        CreatableTopicConfigs(name=e.name, value=e.value, read_only=False, config_source=e.source, is_sensitive=False)
        for e in topic_entries(ports, asked.name, overrides=configs)
    ]
    return CreatableTopicResult(
        name=asked.name,
        topic_id=topic.topic_id,
        error_code=0,
        error_message=None,
        topic_config_error_code=0,
        num_partitions=count,
        replication_factor=len(topic.partitions[0].replicas),
        configs=entries,
    )


def _placing(ports: CreationPorts, asked: CreatableTopic) -> tuple[int, Place]:
    """Return the number of partitions, and a function that assigns their replicas.

    Raises INVALID_REQUEST, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT or the errors of `check_partition_count`.
    """
    placement = ports.placement
    if asked.assignments:
        for name, number in (("replication factor", asked.replication_factor), ("numPartitions", asked.num_partitions)):
            if number != -1:
                reason = f"A manual partition assignment was specified, but {name} was not set to -1."
                raise KafkaError(Code.INVALID_REQUEST, reason)
        assignments = {a.partition_index: tuple(a.broker_ids) for a in asked.assignments}
        if len(assignments) < len(asked.assignments):
            raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
        check_partition_count(len(assignments))
        return len(assignments), lambda: placement.assigned(assignments)
    if asked.replication_factor < -1 or asked.replication_factor == 0:
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
        )
    count = ports.live_config.settings.num_partitions if asked.num_partitions == -1 else asked.num_partitions
    factor = placement.default_replication_factor if asked.replication_factor == -1 else asked.replication_factor
    check_partition_count(count)
    return count, lambda: _placed(placement, count, factor)


def _placed(placement: Placement, count: int, factor: int) -> list[PartitionRegistration]:
    try:
        return placement.placed(count, factor)
    except KafkaError as error:
        raise KafkaError(error.code, f"Unable to replicate the partition {factor} time(s): {error.message}") from None


def failed(request: CreateTopicsRequest, version: int, code: Code) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        throttle_time_ms=0,
        topics=[CreatableTopicResult(name=t.name, topic_id=NO_UUID, error_code=code, error_message=None) for t in request.topics],
    )


API = Declaration(
    key=19,
    handle=handle,
    failed=failed,
    authorisation=authorisations("CREATE CLUSTER, CREATE TOPIC, DESCRIBE_CONFIGS TOPIC", by_handler=True),
)
