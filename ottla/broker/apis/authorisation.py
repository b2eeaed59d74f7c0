"""The permissions that Kafka's authorizer checks before a request is handled.

ottla has no ACLs yet: every client may do everything. Each API declares its permissions nevertheless, so that dispatch can enforce
them one day. The codes are those of org.apache.kafka.common.acl.AclOperation and org.apache.kafka.common.resource.ResourceType;
DescribeAcls and the authorised operations of a topic use the same codes.
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
    """An operation on the resources of one type in a request."""

    operation: AclOperation
    resource_type: ResourceType


def authorisations(text: str) -> tuple[Authorisation, ...]:
    """Parse ``"WRITE TRANSACTIONAL_ID, READ GROUP"``: every permission that Kafka may check for a request of one API.

    A single request may need only some of them, and some replace each other, such as CREATE on CLUSTER or on TOPIC. Raises
    KeyError for a name that Kafka does not have.
    """
    pairs = (pair.split() for pair in text.split(","))
    return tuple(Authorisation(AclOperation[operation], ResourceType[resource]) for operation, resource in pairs)


UNRESTRICTED: tuple[Authorisation, ...] = ()
"""The permissions of an API that every client may use in Kafka."""

ANONYMOUS = ("User", "ANONYMOUS")
"""Type and name of the principal of unauthenticated clients (KafkaPrincipal.ANONYMOUS)."""
