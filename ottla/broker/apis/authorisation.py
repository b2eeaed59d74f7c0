"""The permissions that Kafka's authorizer checks before a request is handled.

ottla has no ACLs yet: every client may do everything. Each API declares its permissions nevertheless, so that dispatch can enforce
them one day.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.security.acl.codes import AclOperation, ResourceType


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
