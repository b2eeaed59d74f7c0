"""What Kafka's authorizer would be asked before a request is handled, in Kafka's own terms.

ottla has no ACLs yet: every client may do everything. Each API declares what Kafka asks for all the same, so that dispatch, the one
place that will enforce it, has nothing to look up elsewhere. Codes are those of org.apache.kafka.common.acl.AclOperation and
org.apache.kafka.common.resource.ResourceType, which are also what DescribeAcls and the authorised operations of a topic go by.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class AclOperation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Authorisation(NamedTuple):
    """An operation on the resource, or on each of the resources, that a request names."""

    operation: AclOperation
    resource_type: ResourceType


def authorisations(text: str) -> tuple[Authorisation, ...]:
    """``"WRITE TRANSACTIONAL_ID, READ GROUP"``: every pair that Kafka may ask for before it answers a request of one API.

    Which of them a request needs depends on what is in it, and some stand for each other (CREATE on CLUSTER, or on TOPIC).
    Raises KeyError for a name that is not Kafka's.
    """
    pairs = (pair.split() for pair in text.split(","))
    return tuple(Authorisation(AclOperation[operation], ResourceType[resource]) for operation, resource in pairs)


UNRESTRICTED: tuple[Authorisation, ...] = ()
"""For an API that Kafka answers to whoever asks."""

ANONYMOUS = ("User", "ANONYMOUS")
"""Type and name of the principal that everybody is who has not been authenticated (KafkaPrincipal.ANONYMOUS)."""
