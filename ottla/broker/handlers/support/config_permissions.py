"""The permissions on resources with configs (ConfigHelper and ControllerApis.authorizeAlterResource of Kafka)."""

from __future__ import annotations

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import check
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.coordinator.metadata.cluster import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from ottla.protocol.errors import KafkaError
from ottla.security.acl.codes import AclOperation, ResourceType

_OF_CLUSTER = (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE)


def check_configs(authorizer: RequestAuthorizer, context: RequestContext, operation: AclOperation, kind: int, name: str) -> None:
    """Raise an error unless the client may perform an operation on the configs of a resource.

    A resource of an unknown type raises no error, because it is refused later, for its type.
    """
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE) and operation is AclOperation.ALTER_CONFIGS:
        # In Kafka the broker checks this permission before it forwards the request, and its error has no message
        # (ConfigAdminManager.preprocess).
        try:
            check(authorizer, context, operation, ResourceType.CLUSTER)
        except KafkaError as error:
            raise KafkaError(error.code) from None
    elif kind in _OF_CLUSTER:
        check(authorizer, context, operation, ResourceType.CLUSTER)
    elif kind == TOPIC_RESOURCE:
        check(authorizer, context, operation, ResourceType.TOPIC, name)
    elif kind == GROUP_RESOURCE:
        check(authorizer, context, operation, ResourceType.GROUP, name)
