"""The permissions that Kafka's authorizer checks before a request is handled.

Each API declares its permissions. A permission that every request of the API needs is checked before its handler is called
(`request_authorizer.enforcing`). The handler checks permissions on single resources, because its response has a result for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ottla.broker.apis.authorizer_port import Client, RequestAuthorizer
from ottla.protocol.errors import Code, KafkaError
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType


class Authorisation(NamedTuple):
    """An operation on the resources of one type in a request."""

    operation: AclOperation
    resource_type: ResourceType


def authorisations(text: str) -> tuple[Authorisation, ...]:
    """Parse ``"WRITE TRANSACTIONAL_ID, READ GROUP"``: every permission that Kafka may check for a request of one API.

    A single request may need only some of these permissions, and some are alternatives, such as CREATE on CLUSTER or on TOPIC.
    Raises KeyError for a name that Kafka does not have.
    """
    pairs = (pair.split() for pair in text.split(","))
    return tuple(Authorisation(AclOperation[operation], ResourceType[resource]) for operation, resource in pairs)


UNRESTRICTED: tuple[Authorisation, ...] = ()
"""The permissions of an API that every client may use in Kafka."""

Authorise: TypeAlias = Callable[[RequestAuthorizer, Any, Any], None]
"""Takes the authorizer, a request and its context. Raises the `KafkaError` of a request that lacks a permission."""

REFUSED = {
    ResourceType.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error of a client that lacks a permission, by the type of the resource (AclEntry.authorizationError)."""


MESSAGES = {
    Code.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    Code.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Code.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}
"""The messages of these errors (Errors). Responses of some APIs have none."""


def denied(resource_type: ResourceType) -> KafkaError:
    """The error, with its message, of a client that lacks a permission on a resource of a type."""
    code = REFUSED[resource_type]
    return KafkaError(code, MESSAGES[code])


def check_cluster(authorizer: RequestAuthorizer, client: Client, operation: AclOperation) -> None:
    """Raise the error of Kafka's AuthHelper.authorizeClusterOperation unless the client may perform the operation on the cluster.

    Kafka's message contains the text form of the request's Java object instead of the word Request.
    """
    if not authorizer.allows(client, operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED, f"Request needs {operation.name} permission.")


def check(
    authorizer: RequestAuthorizer, client: Client, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME
) -> None:
    """Raise the error of the resource type unless the client may perform the operation. The resource is by default the cluster."""
    if not authorizer.allows(client, operation, resource_type, name):
        raise denied(resource_type)


def needs(text: str) -> Authorise:
    """Parse ``"WRITE TRANSACTIONAL_ID transactional_id, READ GROUP group_id"``: permissions that each request needs, in
    the order of their checks, with the fields of the request that name the resources."""
    triples = [part.split() for part in text.split(",")]
    parsed = [(AclOperation[operation], ResourceType[resource], field) for operation, resource, field in triples]

    def authorise(authorizer: RequestAuthorizer, request: Any, context: Any) -> None:
        for operation, resource_type, field in parsed:
            check(authorizer, context, operation, resource_type, getattr(request, field) or "")

    return authorise
