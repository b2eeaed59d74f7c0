"""Finds the partition of a batch in a Produce request."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support.common import topic_name
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.messages.produce import TopicProduceData
from ottla.security.acl.codes import AclOperation, ResourceType

IDS_FROM = 13
"""The first version of Produce with topic ids instead of names."""
ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may write to internal topics, as in Kafka. Other client ids may not."""


class BeforeTheLog(KafkaError):
    """An error that occurred before the log was accessed. Its response has no log start offset."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    cluster: ClusterCommands


def partition_of(ports: Ports, context: RequestContext, topic: TopicProduceData, index: int) -> Partition:
    """Return the partition of a batch in a Produce request.

    Raises `KafkaError` if the partition is unknown, or if the client may not write to the topic.
    """
    name = topic.name if context.version < IDS_FROM else topic_name(ports.cluster, topic.topic_id)
    if not ports.authorizer.allows(context, AclOperation.WRITE, ResourceType.TOPIC, name):
        raise BeforeTheLog(Code.TOPIC_AUTHORIZATION_FAILED)
    partition = ports.partitions.get(name, index)
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"clients must not write to the internal topic {name}")
    return partition
