"""The permissions that Kafka's authorizer checks before a request is handled.

Each API declares its permissions. Permissions that every request of the API needs are checked before the handler is called
(`request_authorizer.enforcing`). The handler checks the others, usually because the response has a result for each resource.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ottla.broker.apis.authorizer_port import Client, RequestAuthorizer
from ottla.protocol.errors import Code, KafkaError
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType


class Authorisation(NamedTuple):
    """A permission: an operation on resources of one type."""

    operation: AclOperation
    resource_type: ResourceType
    field: str = ""
    """The request's field that names the resource, if every request needs the permission."""
    is_checked_by_handler: bool = False


def authorisations(text: str, *, by_handler: bool = False) -> tuple[Authorisation, ...]:
    """Parse all permissions that Kafka may check for requests of one API, such as ``"READ GROUP group_id, READ TOPIC"``.

    Every request needs those whose third word names a field. Of the others it may need only some, and some are alternatives,
    such as CREATE on CLUSTER or on TOPIC. With ``by_handler`` only the handler checks them, usually because its response has
    a result for each resource. Raises KeyError for an operation or resource type that Kafka does not have.
    """
    permissions = []
    for permission in text.split(","):
        operation, type_, *field = permission.split()
        permissions.append(Authorisation(AclOperation[operation], ResourceType[type_], "".join(field), by_handler))
    return tuple(permissions)


UNRESTRICTED: tuple[Authorisation, ...] = ()
"""The empty list of permissions, for an API that every client may use, as in Kafka."""

Authorise: TypeAlias = Callable[[RequestAuthorizer, Any, Any], None]
"""Checks a request with the authorizer. Raises `KafkaError` if the client lacks a permission that the request needs."""

REFUSED = {
    ResourceType.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error code for a client that lacks a permission, by resource type (AclEntry.authorizationError)."""


MESSAGES = {
    Code.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    Code.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Code.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}
"""Kafka's messages of the error codes for missing permissions (Errors). Responses of some APIs have no message."""


def denied(resource_type: ResourceType) -> KafkaError:
    """The error, with its message, for a client that lacks a permission on a resource of this type."""
    code = REFUSED[resource_type]
    return KafkaError(code, MESSAGES[code])


def check_cluster(authorizer: RequestAuthorizer, client: Client, operation: AclOperation) -> None:
    """Raise the error of Kafka's AuthHelper.authorizeClusterOperation unless the client may perform the operation on the cluster.

    Where Kafka's message shows the request's Java object, ottla's has the word Request.
    """
    if not authorizer.allows(client, operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED, f"Request needs {operation.name} permission.")


def check(
    authorizer: RequestAuthorizer, client: Client, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME
) -> None:
    """Raise the resource type's error unless the client may perform the operation on the resource, by default the cluster."""
    if not authorizer.allows(client, operation, resource_type, name):
        raise denied(resource_type)
