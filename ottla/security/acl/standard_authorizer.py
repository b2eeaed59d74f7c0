"""Decides whether a principal may perform an action, and names the rule that decided (StandardAuthorizer of Kafka, KIP-801).

A super user may do everything. Otherwise an ACL that denies the action wins over every ACL that allows it. Without an ACL for the
principal the action is denied, unless ``allow.everyone.if.no.acl.found`` is set and no ACL of any principal applies to the
resource.

A resource name that begins with a character below ``*``, such as a space, can make Kafka's search for an ACL run forever or fail.
This authorizer decides about such names as about all others.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.security.acl.acl_index import AclIndex
from ottla.security.acl.bindings import AclBinding
from ottla.security.acl.codes import WILDCARD, AclOperation, PatternType, PermissionType, ResourceType
from ottla.security.acl.hosts import host_matches
from ottla.security.acl.principals import EVERYONE
from ottla.security.principal import KafkaPrincipal


class NamedRule(Enum):
    """A rule that is not an ACL, with the name that Kafka's audit log gives it."""

    SUPER_USER = "SuperUser"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"


class Decision(NamedTuple):
    """The result of one check: whether the action is allowed, and the ACL or the other rule that decided."""

    is_allowed: bool
    rule: AclBinding | NamedRule

    @property
    def rule_text(self) -> str:
        """The rule as Kafka's audit log writes it."""
        return str(self.rule.value) if isinstance(self.rule, NamedRule) else f"MatchingAcl(acl={self.rule})"


_SUPER_USER = Decision(True, NamedRule.SUPER_USER)
_DEFAULT_ALLOW = Decision(True, NamedRule.DEFAULT_ALLOW)
_DEFAULT_DENY = Decision(False, NamedRule.DEFAULT_DENY)

_DENY = PermissionType.DENY
"""CPython 3.11 takes 0.2 us to read a member of an enumeration from its class."""

MAX_KEPT_DECISIONS = 10_000
"""Maximum number of cached decisions, so that requests with ever new names use at most a few megabytes."""
MAX_KEPT_NAME = 249
"""Decisions are cached only for resource names up to this length in characters, which is the maximum length of a topic name."""

_ANY_RESOURCE = "hardcode"
"""The resource name that `StandardAuthorizer.authorize_by_resource_type` first checks, a constant of Kafka's Authorizer."""


class StandardAuthorizer:
    """Decides by the ACLs of ``index``, which the owner of the cluster's metadata keeps up to date."""

    __slots__ = ("_changes", "_decisions", "_default", "_index", "_super_users")

    def __init__(self, index: AclIndex, super_users: frozenset[KafkaPrincipal], *, allows_without_acl: bool) -> None:
        """``allows_without_acl``: whether everyone may access resources without ACLs (``allow.everyone.if.no.acl.found``)."""
        self._index = index
        self._super_users = super_users
        self._default = _DEFAULT_ALLOW if allows_without_acl else _DEFAULT_DENY
        self._decisions: dict[tuple[KafkaPrincipal, str, AclOperation, ResourceType, str], Decision] = {}
        """Earlier decisions, which are valid until an ACL changes: clients use the same few resources again and again."""
        self._changes = index.changes

    def decide(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Decide about one action. ``host`` is the client's address as `hosts.host_address` returns it."""
        decisions, key = self._decisions, (principal, host, operation, resource_type, name)
        if self._changes != self._index.changes or len(decisions) >= MAX_KEPT_DECISIONS:
            self._changes = self._index.changes
            decisions.clear()
        decision = decisions.get(key)
        if decision is None:
            decision = self._decide(principal, host, operation, resource_type, name)
            if len(name) <= MAX_KEPT_NAME:
                decisions[key] = decision
        return decision

    def _decide(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Decision:
        if principal in self._super_users:
            return _SUPER_USER
        index = self._index
        rule = index.deciding(resource_type, name, principal, host, operation)
        if rule is not None:
            return Decision(rule.permission is not _DENY, rule)
        if self._default is _DEFAULT_ALLOW and index.has_resource(resource_type, name):
            return _DEFAULT_DENY
        return self._default

    def authorize_by_resource_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether the principal may perform an operation on at least one resource of a type (KIP-679).

        As in Kafka, ACLs for other operations that imply ``operation`` do not count, and no ACL denies a super user.
        """
        if self.decide(principal, host, operation, resource_type, _ANY_RESOURCE).is_allowed:
            return True
        denied: dict[PatternType, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        allowed: dict[PatternType, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        principals = (str(principal), str(EVERYONE))
        for acl in self._index.of_type(resource_type):
            is_for_operation = acl.operation in (operation, AclOperation.ALL)
            if is_for_operation and acl.principal in principals and host_matches(acl.host, host):
                names = denied if acl.permission is PermissionType.DENY else allowed
                names[acl.pattern_type].add(acl.resource_name)
        if WILDCARD in denied[PatternType.LITERAL]:
            return False
        if WILDCARD in allowed[PatternType.LITERAL]:
            return True
        prefixes = denied[PatternType.PREFIXED]
        return any(
            not _has_prefix_in(prefixes, name)
            for pattern_type, names in allowed.items()
            for name in names
            if pattern_type is PatternType.PREFIXED or name not in denied[PatternType.LITERAL]
        )


def _has_prefix_in(prefixes: set[str], name: str) -> bool:
    return bool(prefixes) and any(name[:end] in prefixes for end in range(1, len(name) + 1))
