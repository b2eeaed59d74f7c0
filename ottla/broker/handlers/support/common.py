"""Helpers of several handlers: names and ids of topics, authorised operations, error codes by version."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Protocol, TypeVar

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.metadata.topics import Topic
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

NOT_ASKED = -2147483648
CHECK_WORK = 10
"""Estimated time to check a permission and log its denial, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands


class _CommittedTopic(Protocol):
    name: str
    topic_id: bytes


class _AnsweredTopic(Protocol):
    partitions: Any


AnsweredTopic = TypeVar("AnsweredTopic", bound=_AnsweredTopic)


def refused_first(refused: dict[Hashable, AnsweredTopic], asked: dict[Hashable, AnsweredTopic]) -> list[AnsweredTopic]:
    """Join the results of refused partitions with the results of the coordinator, in Kafka's order.

    Refused partitions come first in their topic, and topics with refused partitions come first (OffsetCommitResponse.Builder).
    """
    for key, topic in asked.items():
        if key in refused:
            refused[key].partitions.extend(topic.partitions)
        else:
            refused[key] = topic
    return list(refused.values())


def topic_name(cluster: ClusterCommands, topic_id: bytes) -> str:
    """The name of the topic with this id. Raises UNKNOWN_TOPIC_ID."""
    topic = cluster.state.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_ID)
    return topic.name


def committed_topic(ports: Ports, context: RequestContext, topic: _CommittedTopic, *, ids_from: int) -> str | Code:
    """The name of a topic to which a request commits offsets, or the topic's error code. The client needs READ on the topic.

    Since version ``ids_from`` the request has the topic's id.
    """
    name = topic.name
    if context.version >= ids_from:
        try:
            name = topic_name(ports.cluster, topic.topic_id)
        except KafkaError as error:
            return error.code
    if not ports.authorizer.allows(context, AclOperation.READ, ResourceType.TOPIC, name):
        return Code.TOPIC_AUTHORIZATION_FAILED
    return name


async def check_described(authorizer: RequestAuthorizer, context: RequestContext, names: Iterable[str]) -> None:
    """Raise TOPIC_AUTHORIZATION_FAILED unless the client may describe all of the topics. Many topics are checked in steps."""
    pace = Pace(double_first=True)
    for name in names if authorizer.is_enabled else ():
        if pace.spend(2):
            await next_turn()
        if not authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)


async def denied_topics(
    authorizer: RequestAuthorizer, context: RequestContext, operation: AclOperation, names: Iterable[str]
) -> set[str]:
    """The topics on which the client may not perform an operation. Many topics are checked in steps."""
    pace, found = Pace(double_first=True), set[str]()
    for name in names if authorizer.is_enabled else ():
        if pace.spend(CHECK_WORK):
            await next_turn()
        if not authorizer.allows(context, operation, ResourceType.TOPIC, name):
            found.add(name)
    return found


def topic_id(cluster: ClusterCommands, name: str) -> bytes:
    topic: Topic | None = cluster.state.topics.get(name)
    return NO_UUID if topic is None else topic.topic_id


def code_for_version(code: Code, version: int, producer_fenced_from: int) -> Code:
    """The error code in an API's version: PRODUCER_FENCED only from that version on, INVALID_PRODUCER_EPOCH in older versions."""
    return Code.INVALID_PRODUCER_EPOCH if code is Code.PRODUCER_FENCED and version < producer_fenced_from else code


_COORDINATOR_MESSAGES = {
    Code.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    Code.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    Code.NOT_COORDINATOR: "This is not the correct coordinator.",
}


def share_error_message(error: KafkaError) -> str | None:
    """The error's message for a client. Only the APIs of share groups have messages for an unavailable coordinator."""
    return error.message or _COORDINATOR_MESSAGES.get(error.code)
