"""An ACL, a filter of ACLs, and the text forms that Kafka logs (AclBinding, AclBindingFilter and StandardAcl of Kafka)."""

from __future__ import annotations

from typing import NamedTuple

from ottla.security.acl.codes import WILDCARD, AclOperation, PatternType, PermissionType, ResourceType


class AclBinding(NamedTuple):
    """One ACL: a permission of a principal, from a host, for an operation on the resources that a pattern names."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    """The text form of the principal, as the client that created the ACL sent it."""
    host: str
    operation: AclOperation
    permission: PermissionType

    @property
    def summary(self) -> str:
        """The ACL in few words, for messages."""
        name = f"{self.resource_name}*" if self.pattern_type is PatternType.PREFIXED else self.resource_name
        host = "" if self.host == WILDCARD else f" from {self.host}"
        return f"{self.permission.name} {self.principal} {self.operation.name} {self.resource_type.name} {name}{host}"

    def __str__(self) -> str:
        return (
            f"StandardAcl[resourceType={self.resource_type.name}, resourceName={self.resource_name},"
            f" patternType={self.pattern_type.name}, principal={self.principal}, host={self.host},"
            f" operation={self.operation.name}, permissionType={self.permission.name}]"
        )


class AclBindingFilter(NamedTuple):
    """Selects ACLs. None, ANY and, for a pattern type, MATCH select several values of a field."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY

    @property
    def has_unknown_pattern(self) -> bool:
        return self.resource_type is ResourceType.UNKNOWN or self.pattern_type is PatternType.UNKNOWN

    @property
    def has_unknown_entry(self) -> bool:
        return self.operation is AclOperation.UNKNOWN or self.permission is PermissionType.UNKNOWN

    def matches(self, acl: AclBinding) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (PermissionType.ANY, acl.permission)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.resource_name == acl.resource_name
        if acl.pattern_type is PatternType.LITERAL:
            return acl.resource_name in (self.resource_name, WILDCARD)
        return self.resource_name.startswith(acl.resource_name)
