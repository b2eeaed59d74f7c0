"""Converts between ACLs and the elements of the messages of CreateAcls, DeleteAcls and DescribeAcls."""

from __future__ import annotations

from typing import Any

from ottla.protocol.messages.create_acls import AclCreation
from ottla.security.acl.bindings import AclBinding, AclBindingFilter
from ottla.security.acl.codes import AclOperation, PatternType, PermissionType, ResourceType, of_code


def acl_of(creation: AclCreation) -> AclBinding:
    return AclBinding(
        of_code(ResourceType, creation.resource_type),
        creation.resource_name,
        of_code(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        of_code(AclOperation, creation.operation),
        of_code(PermissionType, creation.permission_type),
    )


def filter_of(message: Any) -> AclBindingFilter:
    """The filter in an element of a DeleteAcls request, or in a DescribeAcls request."""
    return AclBindingFilter(
        of_code(ResourceType, message.resource_type_filter),
        message.resource_name_filter,
        of_code(PatternType, message.pattern_type_filter),
        message.principal_filter,
        message.host_filter,
        of_code(AclOperation, message.operation),
        of_code(PermissionType, message.permission_type),
    )
