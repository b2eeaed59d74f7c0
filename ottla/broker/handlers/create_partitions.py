"""CreatePartitions, versions 0 to 3 (KIP-195): adds partitions to topics.

- 3 (KIP-599): partitions beyond ``controller_mutation_rate`` get THROTTLING_QUOTA_EXCEEDED; in older versions the client is only
  throttled.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support.each import counted_by_name
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement, RecordMutation
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.metadata.placement import Placement
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

STRICT_FROM = 3
"""The first version that refuses partitions beyond the client's quota (KIP-599)."""
CREATE_WORK = 500
"""Estimated time to add partitions to a topic, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    quotas: ClientQuotaEnforcement

    @property
    def placement(self) -> Placement: ...


async def handle(ports: Ports, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    results, pace = [], Pace(double_first=True)
    quota = ports.quotas.mutation_quota(context, strict_from=STRICT_FROM)
    for topic, times in await counted_by_name(request.topics):
        if pace.spend(CREATE_WORK):
            await next_turn()
        if times > 1:
            # If a request repeats a topic, the topic gets one error and is not changed.
            results.append(
                CreatePartitionsTopicResult(name=topic.name, error_code=Code.INVALID_REQUEST, error_message="Duplicate topic name.")
            )
        elif not ports.authorizer.allows(context, AclOperation.ALTER, ResourceType.TOPIC, topic.name):
            results.append(CreatePartitionsTopicResult(name=topic.name, error_code=Code.TOPIC_AUTHORIZATION_FAILED))
        else:
            results.append(await _create(ports, topic, request.validate_only, quota.record))
    return CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=results)


async def _create(
    ports: Ports, asked: CreatePartitionsTopic, validate_only: bool, record: RecordMutation
) -> CreatePartitionsTopicResult:
    cluster = ports.cluster
    try:
        topic = cluster.state.check_more_partitions(asked.name, asked.count)
        first, added = topic.partition_count, asked.count - topic.partition_count
        factor = len(topic.partitions[0].replicas)
        if asked.assignments is not None and len(asked.assignments) != added:
            raise KafkaError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(asked.assignments)} assignment(s) "
                "were specified.",
            )

        def place() -> list[PartitionRegistration]:
            if asked.assignments is None:
                return ports.placement.placed(added, factor)
            assignments = {index: tuple(a.broker_ids) for index, a in enumerate(asked.assignments, first)}
            return ports.placement.assigned(assignments, first=first, replication_factor=factor)

        if validate_only:
            cluster.state.create_partitions(asked.name, asked.count, place())
            record(added)
        else:
            await cluster.create_partitions(asked.name, asked.count, place, lambda: record(added))
    except KafkaError as error:
        return CreatePartitionsTopicResult(name=asked.name, error_code=error.code, error_message=error.message)
    return CreatePartitionsTopicResult(asked.name)


def failed(request: CreatePartitionsRequest, version: int, code: Code) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        throttle_time_ms=0, results=[CreatePartitionsTopicResult(name=t.name, error_code=code) for t in request.topics]
    )


API = Declaration(
    key=37,
    handle=handle,
    failed=failed,
    authorisation=authorisations("ALTER TOPIC", by_handler=True),
)
