"""Builders of ACLs, and of random checks and filters."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.security.acl.acl_index import AclIndex
from ottla.security.acl.bindings import AclBinding, AclBindingFilter
from ottla.security.acl.codes import (
    DECIDED_OPERATIONS,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    granted_operations,
)
from ottla.security.acl.standard_authorizer import StandardAuthorizer
from ottla.security.principal import KafkaPrincipal

ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
HOST = "192.168.1.7"


def acl(
    resource: str,
    operation: str,
    *,
    principal: str = "User:alice",
    host: str = "*",
    permission: str = "ALLOW",
    pattern: str = "LITERAL",
    resource_type: str = "TOPIC",
) -> AclBinding:
    return AclBinding(
        ResourceType[resource_type],
        resource,
        PatternType[pattern],
        principal,
        host,
        AclOperation[operation],
        PermissionType[permission],
    )


def authorizer(
    acls: Iterable[AclBinding], super_users: Iterable[KafkaPrincipal] = (), *, allows: bool = False
) -> StandardAuthorizer:
    index = AclIndex()
    for each in acls:
        index.add(each)
    return StandardAuthorizer(index, frozenset(super_users), allows_without_acl=allows)


@dataclass(frozen=True)
class Check:
    principal: KafkaPrincipal
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str = ""


@dataclass(frozen=True)
class Question:
    """A set of ACLs with settings of the authorizer, and the checks and the filter to evaluate."""

    acls: list[AclBinding]
    super_users: str
    allows_without_acl: bool
    checks: list[Check] = field(default_factory=list)
    by_type: list[Check] = field(default_factory=list)
    filters: list[AclBindingFilter] = field(default_factory=list)


PRINCIPALS = (ALICE, BOB, KafkaPrincipal("User", "a:b"), KafkaPrincipal("Role", "alice"), KafkaPrincipal("User", ""))
ACL_PRINCIPALS = ("User:alice", "User:bob", "User:*", "User:a:b", "Role:alice", "Role:*", "User:")
HOSTS = (HOST, "192.168.1.8", "10.0.0.1", "0.0.0.0", "fd00:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1")
ACL_HOSTS = (
    *("*", "*", "*", "*", HOST, "10.0.0.1", "fd00:0:0:0:0:0:0:1", "fd00::1", "", "192.168.1.0/24", "192.168.001.008/31"),
    *("10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::/0", "::1/128", "1.2.3/8", "::ffff:10.0.0.1/104", "10.0.0.1/33", "fd00::/+16"),
)
TYPES = (ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
ACL_OPERATIONS = (*DECIDED_OPERATIONS, *OPERATIONS, *OPERATIONS, AclOperation.ALL, AclOperation.ALL, AclOperation.ALL)


def made_up_name(rng: random.Random) -> str:
    """Return a short name of few characters, so that many names are equal or prefixes of each other.

    No character sorts before ``*``: such names can make Kafka's authorizer loop forever.
    """
    if rng.random() < 0.15:
        return "*"
    return "".join(rng.choice("aab*-é😀") for _ in range(rng.randint(1, 5)))


def made_up_acl(rng: random.Random) -> AclBinding:
    return AclBinding(
        rng.choice(TYPES),
        made_up_name(rng),
        rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        rng.choice(ACL_PRINCIPALS),
        rng.choice(ACL_HOSTS),
        rng.choice(ACL_OPERATIONS),
        rng.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)),
    )


def made_up(rng: random.Random) -> Question:
    """Return up to 12 ACLs with four checks, one check by resource type, and one filter."""
    acls = list(dict.fromkeys(made_up_acl(rng) for _ in range(rng.choice((0, 1, 2, 4, 8, 12)))))
    return Question(
        acls=acls,
        super_users=rng.choice(("", "", "", "User:bob", " User:bob ;; Role:alice;")),
        allows_without_acl=rng.random() < 0.4,
        checks=[made_up_check(rng, acls) for _ in range(4)],
        by_type=[made_up_check(rng, acls)],
        filters=[made_up_filter(rng, acls)],
    )


def made_up_check(rng: random.Random, acls: list[AclBinding]) -> Check:
    """Return a check, which mostly resembles one of the ACLs."""
    principal, host, resource_type, name = rng.choice(PRINCIPALS), rng.choice(HOSTS), rng.choice(TYPES), made_up_name(rng)
    operation = rng.choice((*DECIDED_OPERATIONS, *OPERATIONS, *OPERATIONS, *OPERATIONS))
    if acls and rng.random() < 0.9:
        base = rng.choice(acls)
        resource_type, name = base.resource_type, base.resource_name + rng.choice(("", "", "a", "ab", "*"))
        if rng.random() < 0.8 and not base.principal.endswith("*"):
            principal = KafkaPrincipal.parse(base.principal)
        if rng.random() < 0.8 and base.host in HOSTS:
            host = base.host
        if rng.random() < 0.8:
            operation = rng.choice(granted_operations(base.operation, base.permission))
    return Check(principal, host, operation, resource_type, name)


def made_up_filter(rng: random.Random, acls: list[AclBinding]) -> AclBindingFilter:
    """Return a filter with some fields of one of the ACLs; its other fields match everything."""
    base = rng.choice(acls) if acls else made_up_acl(rng)
    return AclBindingFilter(
        rng.choice((ResourceType.ANY, base.resource_type)),
        rng.choice((None, base.resource_name, base.resource_name + "a", made_up_name(rng))),
        rng.choice((PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED)),
        rng.choice((None, base.principal)),
        rng.choice((None, base.host)),
        rng.choice((AclOperation.ANY, base.operation)),
        rng.choice((PermissionType.ANY, base.permission)),
    )
