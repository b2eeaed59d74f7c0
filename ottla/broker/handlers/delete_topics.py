"""DeleteTopics, versions 1 to 6 (KIP-4): deletes topics by name, and since version 6 also by id.

- 3 (KIP-322): requests get TOPIC_DELETION_DISABLED if ``delete.topic.enable`` is false.
- 5 (KIP-599): the response has error messages, and topics beyond ``controller_mutation_rate`` get THROTTLING_QUOTA_EXCEEDED.
- 6 (KIP-516): topics by id. As in Kafka a client that may not DESCRIBE such a topic does not get its name.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, denied
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.common import topic_id, topic_name
from ottla.broker.handlers.support.each import each, made
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement, RecordMutation
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.primitives import NO_UUID
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType

_MESSAGES = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    Code.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
}
STRICT_FROM = 5
"""The first version that refuses topics beyond the client's quota (KIP-599)."""
TOPIC_WORK = 500
"""Estimated time to delete a topic, excluding its partitions, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    live_config: LiveConfig
    quotas: ClientQuotaEnforcement


async def handle(ports: Ports, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    asked = await made(lambda: _RequestedTopics(request, context.version), len(request.topics) + len(request.topic_names))

    def delete(topic: DeleteTopicState) -> DeletableTopicResult:
        if topic.name is not None and asked.by_name[topic.name] > 1:
            return DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=Code.INVALID_REQUEST, error_message="Duplicate topic name."
            )
        if topic.name is None and topic.topic_id != NO_UUID and asked.by_id[topic.topic_id] > 1:
            return DeletableTopicResult(
                name=None, topic_id=topic.topic_id, error_code=Code.INVALID_REQUEST, error_message="Duplicate topic id."
            )
        return _delete(ports, context, topic, quota.record)

    quota = ports.quotas.mutation_quota(context, strict_from=STRICT_FROM)
    state = ports.cluster.state

    def work(asked_topic: DeleteTopicState) -> int:
        topic = state.topics.get(asked_topic.name or "") or state.topics_by_id.get(asked_topic.topic_id)
        return 5 if topic is None else TOPIC_WORK + topic.partition_count // 2

    return await each(
        asked.distinct.values(),
        delete,
        lambda results: DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=list(results)),
        work=work,
    )


class _RequestedTopics:
    """The topics of a request. A repeated topic gets one error and is not deleted; each entry without name and id gets an error."""

    def __init__(self, request: DeleteTopicsRequest, version: int) -> None:
        topics = request.topics if version >= 6 else [DeleteTopicState(name) for name in request.topic_names]
        self.by_name = Counter(t.name for t in topics)
        self.by_id = Counter(t.topic_id for t in topics)
        self.distinct = {
            (t.name, t.topic_id) if t.name is not None or t.topic_id != NO_UUID else at: t for at, t in enumerate(topics)
        }


def _may(ports: Ports, context: RequestContext, operation: AclOperation, topic: str) -> bool:
    """Whether the client may perform the operation on this topic, or may delete all topics of the cluster."""
    authorizer = ports.authorizer
    return authorizer.allows(
        context, AclOperation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False
    ) or authorizer.allows(context, operation, ResourceType.TOPIC, topic)


def _delete(ports: Ports, context: RequestContext, asked: DeleteTopicState, record: RecordMutation) -> DeletableTopicResult:
    name, uuid = asked.name, asked.topic_id
    try:
        if name is None and uuid == NO_UUID:
            raise KafkaError(Code.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if name is None:
            name = topic_name(ports.cluster, uuid)
        elif uuid != NO_UUID:
            raise KafkaError(Code.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if not ports.live_config.settings.delete_topic_enable:
            raise KafkaError(Code.TOPIC_DELETION_DISABLED)
        may_delete = _may(ports, context, AclOperation.DELETE, name)
        if not (may_delete and asked.name is None) and not _may(ports, context, AclOperation.DESCRIBE, name):
            # The client gave only the topic's id and may not describe the topic, so the response must not have its name.
            name, uuid = asked.name, asked.topic_id
            raise denied(ResourceType.TOPIC)
        if not may_delete and name in ports.cluster.state.topics:
            raise denied(ResourceType.TOPIC)
        uuid = topic_id(ports.cluster, name)
        record(ports.cluster.state.topic(name).partition_count)
        ports.cluster.delete_topic(name)
    except KafkaError as error:
        message = error.message or _MESSAGES.get(error.code)
        return DeletableTopicResult(name=name, topic_id=uuid, error_code=error.code, error_message=message)
    return DeletableTopicResult(name=name, topic_id=uuid)


def failed(request: DeleteTopicsRequest, version: int, code: Code) -> DeleteTopicsResponse:
    named = [(t.name, t.topic_id) for t in request.topics] + [(name, NO_UUID) for name in request.topic_names]
    return DeleteTopicsResponse(
        throttle_time_ms=0, responses=[DeletableTopicResult(name=name, topic_id=uuid, error_code=code) for name, uuid in named]
    )


API = Declaration(
    key=20,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DELETE CLUSTER, DELETE TOPIC, DESCRIBE TOPIC", by_handler=True),
)
