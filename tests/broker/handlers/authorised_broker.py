"""A simulated broker with an authorizer, whose ACLs are for its unauthenticated client."""

from __future__ import annotations

from typing import Any

from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.security.acl.bindings import AclBinding
from ottla.simulation.broker import SimulatedBroker
from tests.security.acl.acls import acl

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANONYMOUS = "User:ANONYMOUS"


def authorised(settings: dict[str, str] | None = None) -> SimulatedBroker:
    """Return a started broker without ACLs, so that clients have no permissions."""
    return SimulatedBroker({"authorizer.class.name": AUTHORIZER, **(settings or {})}).start()


def may(resource_type: str, resource: str, operation: str, *, permission: str = "ALLOW", pattern: str = "LITERAL") -> AclBinding:
    """Return an ACL for unauthenticated clients."""
    return acl(resource, operation, principal=ANONYMOUS, permission=permission, pattern=pattern, resource_type=resource_type)


CLUSTER = "kafka-cluster"


def grant(broker: SimulatedBroker, *acls: AclBinding) -> None:
    """Write ACLs to the broker's metadata log without a CreateAcls request."""
    cluster = broker.broker.cluster
    cluster._execute(cluster.state.acls.create(acls, broker.env.random_uuid, cluster.state.metadata_version))


def revoke_all(broker: SimulatedBroker) -> None:
    from ottla.security.acl.bindings import AclBindingFilter

    cluster = broker.broker.cluster
    cluster._execute(cluster.state.acls.delete([AclBindingFilter()]))


def creations(*acls: AclBinding) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[creation(each) for each in acls])


def creation(of: AclBinding, **changes: Any) -> AclCreation:
    fields: dict[str, Any] = {
        "resource_type": of.resource_type,
        "resource_name": of.resource_name,
        "resource_pattern_type": of.pattern_type,
        "principal": of.principal,
        "host": of.host,
        "operation": of.operation,
        "permission_type": of.permission,
    }
    return AclCreation(**(fields | changes))
