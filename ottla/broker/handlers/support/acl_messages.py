"""Converts between ACLs and the elements of the messages of CreateAcls, DeleteAcls and DescribeAcls."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, TypeVar

from ottla.broker.apis.api import RequestRefused
from ottla.protocol.messages.create_acls import AclCreation
from ottla.security.acl.bindings import AclBinding, AclBindingFilter
from ottla.security.acl.codes import AclOperation, PatternType, PermissionType, ResourceType, of_code

K = TypeVar("K", bound=IntEnum)


def acls_of(creations: Iterable[AclCreation]) -> list[AclBinding]:
    """The ACLs in a CreateAcls request. Raises `RequestRefused` for a code that Kafka does not have, or the code UNKNOWN."""
    return [
        AclBinding(
            _known(ResourceType, creation.resource_type),
            creation.resource_name,
            _known(PatternType, creation.resource_pattern_type),
            creation.principal,
            creation.host,
            _known(AclOperation, creation.operation),
            _known(PermissionType, creation.permission_type),
        )
        for creation in creations
    ]


def filters_of(messages: Iterable[Any]) -> list[AclBindingFilter]:
    """The filters of a DeleteAcls request, or the one filter of a DescribeAcls request. Raises `RequestRefused` like `acls_of`."""
    return [
        AclBindingFilter(
            _known(ResourceType, message.resource_type_filter),
            message.resource_name_filter,
            _known(PatternType, message.pattern_type_filter),
            message.principal_filter,
            message.host_filter,
            _known(AclOperation, message.operation),
            _known(PermissionType, message.permission_type),
        )
        for message in messages
    ]


def _known(kind: type[K], code: int) -> K:
    found = of_code(kind, code)
    if found == 0:
        raise RequestRefused(f"an ACL or a filter has the unknown {kind.__name__} {code}")
    return found
