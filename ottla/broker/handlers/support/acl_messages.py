"""Converts between ACLs and the elements of the messages of CreateAcls, DeleteAcls and DescribeAcls."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, TypeVar

from ottla.broker.apis.api import RequestRefused
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.create_acls import AclCreation
from ottla.security.acl.bindings import AclBinding, AclBindingFilter
from ottla.security.acl.codes import AclOperation, PatternType, PermissionType, ResourceType, of_code

K = TypeVar("K", bound=IntEnum)


def acls_of(creations: Iterable[AclCreation]) -> list[AclBinding]:
    """The ACLs in a CreateAcls request.

    Raises `RequestRefused` for a type, operation or permission UNKNOWN, which Kafka cannot parse. Raises UNKNOWN_SERVER_ERROR, as
    Kafka does, for codes that only filters may have.
    """
    acls = [
        AclBinding(
            _of_code(ResourceType, creation.resource_type),
            creation.resource_name,
            _of_code(PatternType, creation.resource_pattern_type),
            creation.principal,
            creation.host,
            _of_code(AclOperation, creation.operation),
            _of_code(PermissionType, creation.permission_type),
        )
        for creation in creations
    ]
    if any(_is_of_filters(acl) for acl in acls):
        raise KafkaError(Code.UNKNOWN_SERVER_ERROR)
    return acls


def _is_of_filters(acl: AclBinding) -> bool:
    return (
        acl.resource_type is ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation is AclOperation.ANY
        or acl.permission is PermissionType.ANY
    )


def filters_of(messages: Iterable[Any]) -> list[AclBindingFilter]:
    """The filters of a DeleteAcls or DescribeAcls request. Raises `RequestRefused` for a type, operation or permission UNKNOWN."""
    return [
        AclBindingFilter(
            _of_code(ResourceType, message.resource_type_filter),
            message.resource_name_filter,
            _of_code(PatternType, message.pattern_type_filter),
            message.principal_filter,
            message.host_filter,
            _of_code(AclOperation, message.operation),
            _of_code(PermissionType, message.permission_type),
        )
        for message in messages
    ]


def _of_code(kind: type[K], code: int) -> K:
    if code == 0:
        raise RequestRefused(f"an ACL or a filter has the {kind.__name__} UNKNOWN")
    return of_code(kind, code)
