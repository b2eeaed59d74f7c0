"""Lists, creates and deletes ACLs (DescribeAcls, CreateAcls, DeleteAcls)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from ottla.arguments import BadArgument
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError, KafkaAnswered, check
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource
from ottla.security.acl.bindings import AclBinding, AclBindingFilter
from ottla.security.acl.codes import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    of_code,
)
from ottla.security.principal import USER

OPERATIONS: Final = tuple(o.name.lower().replace("_", "-") for o in AclOperation if o > AclOperation.ANY)
"""Names of the ACL operations in commands, such as ``describe-configs``."""
Resources = Sequence[tuple[ResourceType, str]]
T = TypeVar("T")


def operation_of(text: str) -> AclOperation:
    """Parse the name of an ACL operation in any case. Raises `BadArgument` for an unknown name."""
    name = text.strip().lower().replace("_", "-")
    if name not in OPERATIONS:
        raise BadArgument(f"{text!r} is not an operation; give one of {', '.join(OPERATIONS)}")
    return AclOperation[name.replace("-", "_").upper()]


def principal_of(text: str) -> str:
    """Return the principal ``User:alice`` for the text ``User:alice`` or ``alice``. Raises `BadArgument`."""
    kind, colon, name = text.partition(":")
    if not text or (colon and not (kind and name)):
        raise BadArgument(f"{text!r} is not a principal; give User:NAME, or NAME")
    return text if colon else f"{USER}:{text}"


def resources(
    topics: Iterable[str] = (),
    groups: Iterable[str] = (),
    transactional_ids: Iterable[str] = (),
    delegation_tokens: Iterable[str] = (),
    users: Iterable[str] = (),
    *,
    has_cluster: bool = False,
) -> Resources:
    """Return the named resources as pairs of resource type and name."""
    found = [(ResourceType.TOPIC, name) for name in topics]
    found += [(ResourceType.GROUP, name) for name in groups]
    found += [(ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids]
    found += [(ResourceType.DELEGATION_TOKEN, name) for name in delegation_tokens]
    found += [(ResourceType.USER, name) for name in users]
    return [*found, (ResourceType.CLUSTER, CLUSTER_NAME)] if has_cluster else found


def check_operations(wanted: Resources, operations: Iterable[AclOperation]) -> None:
    """Raise `BadArgument` if the type of a resource does not have an operation: such an ACL would never match, as in kafka-acls
    (AclCommand)."""
    for kind in dict(wanted):
        supported = SUPPORTED_OPERATIONS[kind]
        for operation in operations:
            if operation is not AclOperation.ALL and operation not in supported:
                known = ", ".join(map(named, (*supported, AclOperation.ALL)))
                raise BadArgument(f"--operation {named(operation)}: {_words(kind)} has no such operation; give one of {known}")


def _words(kind: ResourceType) -> str:
    return f"a {named(kind).replace('-', ' ')}"


def list_acls(brokers: BrokerConnections, selected: AclBindingFilter) -> list[AclBinding]:
    """Return the ACLs that the filter selects, ordered by resource. Raises `KafkaAnswered`."""
    what = "asking for the ACLs"
    request = DescribeAclsRequest(
        resource_type_filter=selected.resource_type,
        resource_name_filter=selected.resource_name,
        pattern_type_filter=selected.pattern_type,
        principal_filter=selected.principal,
        host_filter=selected.host,
        operation=selected.operation,
        permission_type=selected.permission,
    )

    def attempt() -> list[DescribeAclsResource]:
        answer = brokers.ask(brokers.anyone(), request)
        check(what, answer.error_code, answer.error_message)
        found: list[DescribeAclsResource] = answer.resources
        return found

    return sorted(_binding(resource, acl) for resource in brokers.until_final(what, attempt) for acl in resource.acls)


def has_authorizer(brokers: BrokerConnections) -> bool:
    """Whether the cluster has an authorizer. With an authorizer, responses omit topics, groups and transactional ids that this user
    may not describe, without an error."""
    try:
        list_acls(brokers, AclBindingFilter(resource_type=ResourceType.CLUSTER))
    except KafkaAnswered as error:
        return error.code is not Code.SECURITY_DISABLED
    except ClientError:
        # The result is only a hint for the user, so a failed request is ignored.
        return False
    return True


def add_acls(brokers: BrokerConnections, acls: Sequence[AclBinding]) -> None:
    """Create ACLs; existing ACLs do not change. Raises `KafkaAnswered` for the first refused ACL."""
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )

    def attempt() -> None:
        for acl, result in zip(acls, brokers.ask(brokers.controller(), request).results, strict=True):
            check(f"adding the ACL {sentence(acl)}", result.error_code, result.error_message)

    brokers.until_final("adding ACLs", attempt)


def remove_acls(brokers: BrokerConnections, filters: Sequence[AclBindingFilter]) -> list[AclBinding]:
    """Delete the ACLs that any of the filters selects, and return them. Raises `KafkaAnswered`."""
    what = "removing ACLs"
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=selected.resource_type,
                resource_name_filter=selected.resource_name,
                pattern_type_filter=selected.pattern_type,
                principal_filter=selected.principal,
                host_filter=selected.host,
                operation=selected.operation,
                permission_type=selected.permission,
            )
            for selected in filters
        ]
    )

    def attempt() -> list[AclBinding]:
        removed = set()
        for result in brokers.ask(brokers.controller(), request).filter_results:
            check(what, result.error_code, result.error_message)
            for acl in result.matching_acls:
                check(what, acl.error_code, acl.error_message)
                removed.add(_binding(acl, acl))
        return sorted(removed)

    return brokers.until_final(what, attempt)


def _binding(resource: DescribeAclsResource | DeleteAclsMatchingAcl, acl: AclDescription | DeleteAclsMatchingAcl) -> AclBinding:
    return AclBinding(
        resource_type=of_code(ResourceType, resource.resource_type),
        resource_name=resource.resource_name,
        pattern_type=of_code(PatternType, resource.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=of_code(AclOperation, acl.operation),
        permission=of_code(PermissionType, acl.permission_type),
    )


def named(code: AclOperation | PatternType | PermissionType | ResourceType) -> str:
    """Return an enum member's name as commands write it, such as ``transactional-id``."""
    return code.name.lower().replace("_", "-")


def sentence(acl: AclBinding) -> str:
    """Describe an ACL: ``User:alice allow read topic orders``."""
    prefix = "prefix " if acl.pattern_type is PatternType.PREFIXED else ""
    host = "" if acl.host == "*" else f" from {acl.host}"
    of = f"{acl.principal}{host} {named(acl.permission)} {named(acl.operation)}"
    return f"{of} {named(acl.resource_type)} {prefix}{acl.resource_name}"
