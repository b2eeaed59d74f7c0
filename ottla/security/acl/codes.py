"""Resource types, pattern types, operations and permissions, with the codes and names of org.apache.kafka.common.acl and
resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TypeVar, cast


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    """In a filter: every resource type."""
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the resource name of an ACL or of a filter is compared with the name of a resource (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    """In a filter: ACLs of every pattern type, whose name equals that of the filter."""
    MATCH = 2
    """In a filter: every ACL that applies to a resource with the filter's name."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    """In a filter: every operation."""
    ALL = 2
    """In an ACL: every operation."""
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    """In a filter: both permissions."""
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
WILDCARD = "*"
"""The LITERAL resource name, the host or the user name of an ACL that applies to all resources, hosts or users."""

E = TypeVar("E", bound=IntEnum)


def of_code(kind: type[E], code: int) -> E:
    """Return the member with a code, or UNKNOWN for a code that Kafka does not have (``fromCode`` of Kafka's enumerations)."""
    # Calling the enumeration would take five times as long, and a start may read four codes of each of 50,000 ACLs.
    member = kind._value2member_map_.get(code)
    return kind(0) if member is None else cast(E, member)


_TOPIC = "READ WRITE CREATE DESCRIBE DELETE ALTER DESCRIBE_CONFIGS ALTER_CONFIGS"
_GROUP = "READ DESCRIBE DELETE DESCRIBE_CONFIGS ALTER_CONFIGS"
_CLUSTER = "CREATE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALTER DESCRIBE"

SUPPORTED_OPERATIONS: Mapping[ResourceType, tuple[AclOperation, ...]] = {
    resource_type: tuple(AclOperation[name] for name in names.split())
    for resource_type, names in {
        ResourceType.TOPIC: _TOPIC,
        ResourceType.GROUP: _GROUP,
        ResourceType.CLUSTER: _CLUSTER,
        ResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE TWO_PHASE_COMMIT",
        ResourceType.DELEGATION_TOKEN: "DESCRIBE",
        ResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS",
    }.items()
}
"""The operations that exist for each type of resource (AclEntry.supportedOperations)."""


def operation_bits(operations: Iterable[AclOperation]) -> int:
    """Return operations as the bit field of authorised operations in responses (Utils.to32BitField)."""
    bits = 0
    for operation in operations:
        bits |= 1 << operation
    return bits


DECIDED_OPERATIONS = tuple(operation for operation in AclOperation if operation > AclOperation.ALL)
"""The operations about which an authorizer decides. UNKNOWN, ANY and ALL occur only in ACLs and in filters for ACLs."""

_IMPLIES_DESCRIBE = frozenset({AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER})


def granted_operations(operation: AclOperation, permission: PermissionType) -> tuple[AclOperation, ...]:
    """Return the operations that an ACL with this operation decides about.

    An ACL that allows READ, WRITE, DELETE or ALTER also allows DESCRIBE, and one that allows ALTER_CONFIGS also allows
    DESCRIBE_CONFIGS. An ACL that denies an operation denies no other.
    """
    if operation is AclOperation.ALL:
        return DECIDED_OPERATIONS
    if permission is PermissionType.ALLOW:
        if operation in _IMPLIES_DESCRIBE:
            return operation, AclOperation.DESCRIBE
        if operation is AclOperation.ALTER_CONFIGS:
            return operation, AclOperation.DESCRIBE_CONFIGS
    return (operation,)


def implying_operations(resource_type: ResourceType, operation: AclOperation) -> tuple[AclOperation, ...]:
    """Return the other operations of a resource that also allow ``operation`` if an ACL allows them."""
    return tuple(
        other
        for other in SUPPORTED_OPERATIONS.get(resource_type, ())
        if other is not operation and operation in granted_operations(other, PermissionType.ALLOW)
    )
