"""ACLs as values, and the ACLs of a running broker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.kafka_client import KafkaClient
    from ottla.security.acl.bindings import AclBinding


@dataclass(frozen=True, slots=True)
class Acl:
    """An ACL: a principal is allowed, or denied, an operation on one resource.

    ``principal`` is ``User:alice`` or ``alice``; ``User:*`` is everyone. ``operation`` is a name of Kafka's: ``read``, ``write``,
    ``describe``, ``all`` and so on. Exactly one of ``topic``, ``group``, ``transactional_id`` and ``cluster`` is given; the name
    ``*`` is every resource of that kind. With ``prefixed`` the name is a prefix of names.
    """

    principal: str
    operation: str
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    cluster: bool = False
    prefixed: bool = False
    deny: bool = False
    host: str = "*"

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid ACL."""
        self.binding()

    def binding(self) -> AclBinding:
        """Convert the ACL for requests. Raises ValueError."""
        from ottla.client.admin.acls import operation_of, principal_of, resources
        from ottla.security.acl.bindings import AclBinding
        from ottla.security.acl.codes import PatternType, PermissionType

        given = [[] if name is None else [name] for name in (self.topic, self.group, self.transactional_id)]
        named = resources(*given, has_cluster=self.cluster)
        if len(named) != 1:
            raise ValueError(f"{self}: give one of topic=, group=, transactional_id= and cluster=True")
        ((resource_type, resource_name),) = named
        return AclBinding(
            resource_type=resource_type,
            resource_name=resource_name,
            pattern_type=PatternType.PREFIXED if self.prefixed else PatternType.LITERAL,
            principal=principal_of(self.principal),
            host=self.host,
            operation=operation_of(self.operation),
            permission=PermissionType.DENY if self.deny else PermissionType.ALLOW,
        )


def acl_of(binding: AclBinding) -> Acl:
    """Convert an ACL from a broker's response."""
    from ottla.client.admin.acls import named
    from ottla.security.acl.codes import PatternType, PermissionType, ResourceType

    name: dict[str, Any] = {"cluster": True}
    for field, kind in (
        ("topic", ResourceType.TOPIC),
        ("group", ResourceType.GROUP),
        ("transactional_id", ResourceType.TRANSACTIONAL_ID),
    ):
        if binding.resource_type is kind:
            name = {field: binding.resource_name}
    return Acl(
        principal=binding.principal,
        operation=named(binding.operation),
        prefixed=binding.pattern_type is PatternType.PREFIXED,
        deny=binding.permission is PermissionType.DENY,
        host=binding.host,
        **name,
    )


class BrokerAcls:
    """The ACLs of a running broker or cluster. Its methods raise `ottla.client.ClientError`."""

    def __init__(self, cluster: Callable[[], AbstractContextManager[KafkaClient]]) -> None:
        self._cluster = cluster

    def add(self, *acls: Acl) -> None:
        """Add ACLs. They apply to the next request of every client, also on connections that are open."""
        from ottla.client.admin.acls import add_acls

        if acls:
            with self._cluster() as cluster:
                add_acls(cluster.brokers, [acl.binding() for acl in acls])

    def remove(self, *acls: Acl) -> None:
        """Remove ACLs. Raises ValueError for an ACL that the broker does not have."""
        from ottla.client.admin.acls import remove_acls
        from ottla.security.acl.bindings import AclBindingFilter

        with self._cluster() as cluster:
            for acl in acls:
                if not remove_acls(cluster.brokers, [AclBindingFilter(*acl.binding())]):
                    raise ValueError(f"unknown ACL {acl}")

    def list(self) -> list[Acl]:
        """Return all ACLs of topics, groups, transactional ids and the cluster, in the order of their resources."""
        from ottla.client.admin.acls import list_acls
        from ottla.security.acl.bindings import AclBindingFilter
        from ottla.security.acl.codes import ResourceType

        with self._cluster() as cluster:
            found = list_acls(cluster.brokers, AclBindingFilter())
        return [acl_of(binding) for binding in found if binding.resource_type <= ResourceType.TRANSACTIONAL_ID]
