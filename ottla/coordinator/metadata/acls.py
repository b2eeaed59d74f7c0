"""The cluster's ACLs as records of the metadata log (AclControlManager and AclsImage of Kafka)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.security.acl.acl_index import AclIndex
from ottla.security.acl.bindings import AclBinding, AclBindingFilter
from ottla.security.acl.codes import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    of_code,
)
from ottla.security.acl.hosts import check_range

CIDR_HOSTS = 32
"""Level 4.4-IV1 of ``metadata.version``, which adds ranges of addresses as hosts of ACLs."""
MAX_ACLS_AT_ONCE = 10_000
"""Maximum number of ACLs that one request creates or deletes (QuorumController.MAX_RECORDS_PER_USER_OP)."""
MAX_ACLS = 50_000
"""Maximum number of ACLs of a cluster. Kafka has no limit."""
MAX_MATCHES = 100_000
"""Maximum number of ACLs in the response to one DeleteAcls, in which an ACL is repeated for each filter that matches it."""
MAX_ACL_CHARACTERS = 3_000
"""Maximum length of an ACL's resource name, principal and host together. Kafka allows 32,767 bytes for each."""

Ids = dict[bytes, AclBinding]
Entries = list[tuple[bytes, AclBinding]]
Deleted: TypeAlias = list[list[AclBinding] | KafkaError]
"""The deleted ACLs, or an error, for each filter of a request."""


class Acls:
    """All ACLs by their ids. ``index`` has the same ACLs, indexed for an authorizer."""

    __slots__ = ("_copies", "by_id", "index")

    def __init__(self) -> None:
        self.by_id: Ids = {}
        self.index = AclIndex()
        self._copies: Counter[AclBinding] = Counter()
        """The number of ids that an ACL has. Requests do not create an ACL that exists, but a log may repeat an ACL with another
        id."""

    def create(
        self, acls: Sequence[AclBinding], new_id: Callable[[], bytes], metadata_version: int
    ) -> Result[list[KafkaError | None]]:
        """Create the valid ACLs of a request. The response has an error or None for each ACL.

        An existing ACL is not created again, and has no error. Raises POLICY_VIOLATION for too many ACLs.
        """
        results: list[KafkaError | None] = []
        self.check_count(acls)
        created: dict[AclBinding, LogRecord] = {}
        for acl in acls:
            error = _invalid(acl, has_ranges=metadata_version >= CIDR_HOSTS)
            results.append(error)
            if error is None and acl not in self._copies and acl not in created:
                created[acl] = _record(new_id(), acl)
        if len(self.by_id) + len(created) > MAX_ACLS:
            raise KafkaError(Code.POLICY_VIOLATION, f"at most {MAX_ACLS} ACLs are allowed; delete some first")
        return Result(results, list(created.values()))

    def check_count(self, acls: Collection[AclBinding]) -> None:
        """Raise POLICY_VIOLATION if a request would create too many ACLs."""
        if len(acls) > MAX_ACLS_AT_ONCE and len({acl for acl in acls if acl not in self._copies}) > MAX_ACLS_AT_ONCE:
            raise KafkaError(Code.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")

    def delete(self, filters: Sequence[AclBindingFilter]) -> Result[Deleted]:
        """Delete the ACLs that match any filter, as `find` and `remove` do."""
        results, found = self.find(filters)
        return Result(results, self.remove(found).records)

    def find(self, filters: Sequence[AclBindingFilter]) -> tuple[Deleted, list[bytes]]:
        """Return the matching ACLs, or an error, for each filter, and the ids of all these ACLs.

        An ACL that several filters match is in the result of each of them. Raises INVALID_REQUEST for too many ACLs, and
        POLICY_VIOLATION if the response would be too large. May be called in another thread.
        """
        results: Deleted = []
        deleted: dict[bytes, None] = {}
        search, matches = _Search(self.by_id), 0
        for each in filters:
            if each.has_unknown_pattern:
                results.append(KafkaError(Code.INVALID_REQUEST, "Unknown patternFilter."))
            elif each.has_unknown_entry:
                results.append(KafkaError(Code.INVALID_REQUEST, "Unknown entryFilter."))
            else:
                found = search.found(each)
                matches += len(found)
                deleted |= dict.fromkeys(acl_id for acl_id, _ in found)
                results.append([acl for _, acl in found])
            if len(deleted) > MAX_ACLS_AT_ONCE:
                reason = f"Cannot remove more than {MAX_ACLS_AT_ONCE} acls in a single delete operation."
                raise KafkaError(Code.INVALID_REQUEST, reason)
            if matches > MAX_MATCHES:
                raise KafkaError(Code.POLICY_VIOLATION, f"the filters match more than {MAX_MATCHES} ACLs; give fewer filters")
        return results, list(deleted)

    def remove(self, acl_ids: Iterable[bytes]) -> Result[None]:
        """Remove ACLs, as far as they still exist."""
        return Result(None, [_removal(acl_id) for acl_id in acl_ids if acl_id in self.by_id])

    def matching(self, selects: AclBindingFilter) -> list[AclBinding]:
        """Return the ACLs that match a filter, each once, ordered by their fields."""
        return sorted(acl for acl in list(self._copies) if selects.matches(acl))

    # replaying ACL records

    def replay(self, message: Any) -> None:
        """Add the ACL of an AccessControlEntryRecord."""
        acl = AclBinding(
            of_code(ResourceType, message.resource_type),
            message.resource_name,
            of_code(PatternType, message.pattern_type),
            message.principal,
            message.host,
            of_code(AclOperation, message.operation),
            of_code(PermissionType, message.permission_type),
        )
        acl_id = bytes(message.id)
        if acl_id in self.by_id:
            self._remove(acl_id)
        self.by_id[acl_id] = acl
        self._copies[acl] += 1
        if self._copies[acl] == 1:
            self.index.add(acl)

    def replay_removal(self, message: Any) -> None:
        """Remove the ACL of a RemoveAccessControlEntryRecord. Raises DecodeError if there is none."""
        acl_id = bytes(message.id)
        if acl_id not in self.by_id:
            raise DecodeError("the record removes an ACL that does not exist")
        self._remove(acl_id)

    def _remove(self, acl_id: bytes) -> None:
        acl = self.by_id.pop(acl_id)
        self._copies[acl] -= 1
        if not self._copies[acl]:
            del self._copies[acl]
            self.index.remove(acl)

    def drop_known(self, own: Acls) -> None:
        """Remove each ACL that is also in ``own``, and each ACL whose id is in ``own``."""
        for acl_id, acl in list(self.by_id.items()):
            if acl_id in own.by_id or acl in own._copies:
                self._remove(acl_id)

    def snapshot(self) -> list[LogRecord]:
        """Return records that restore all ACLs."""
        return [_record(acl_id, acl) for acl_id, acl in self.by_id.items()]


class _Search:
    """Finds the ACLs that match the filters of one request. Most filters are compared only with ACLs that have the filter's
    resource name or principal."""

    __slots__ = ("_all", "_by_name", "_by_principal", "_found")

    def __init__(self, by_id: Ids) -> None:
        self._all = list(by_id.items())
        self._by_name: dict[str, Entries] = defaultdict(list)
        self._by_principal: dict[str, Entries] = defaultdict(list)
        self._found: dict[AclBindingFilter, Entries] = {}
        for entry in self._all:
            self._by_name[entry[1].resource_name].append(entry)
            self._by_principal[entry[1].principal].append(entry)

    def found(self, selects: AclBindingFilter) -> Entries:
        """Return the matching ACLs with their ids, in the order of their creation."""
        found = self._found.get(selects)
        if found is None:
            found = self._found[selects] = [entry for entry in self._candidates(selects) if selects.matches(entry[1])]
        return found

    def _candidates(self, selects: AclBindingFilter) -> Entries:
        if selects.resource_name is not None and selects.pattern_type is not PatternType.MATCH:
            return self._by_name.get(selects.resource_name, [])
        if selects.principal is not None:
            return self._by_principal.get(selects.principal, [])
        return self._all


def _invalid(acl: AclBinding, *, has_ranges: bool) -> KafkaError | None:
    """Return the reason why an ACL cannot be created, in Kafka's words, or None (AclApis, AclControlManager.validateNewAcl)."""
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        reason = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not acl.resource_name:
        reason = "Invalid empty resource name"
    elif acl.resource_type is ResourceType.UNKNOWN:
        reason = "Invalid resourceType UNKNOWN"
    elif acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        reason = f"Invalid patternType {acl.pattern_type.name}"
    elif acl.operation is AclOperation.UNKNOWN:
        reason = "Invalid operation UNKNOWN"
    elif acl.permission not in (PermissionType.DENY, PermissionType.ALLOW):
        reason = f"Invalid permissionType {acl.permission.name}"
    elif ":" not in acl.principal:
        reason = (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from the"
            " principal name)"
        )
    else:
        return _invalid_host(acl.host, has_ranges=has_ranges) or _too_long(acl)
    return KafkaError(Code.INVALID_REQUEST, reason)


def _invalid_host(host: str, *, has_ranges: bool) -> KafkaError | None:
    if not host:
        return KafkaError(Code.INVALID_REQUEST, "Host pattern cannot be null or empty")
    if host == WILDCARD or "/" not in host:
        return None
    if not has_ranges:
        return KafkaError(Code.UNSUPPORTED_VERSION, "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.")
    try:
        check_range(host)
    except ValueError as error:
        return KafkaError(Code.INVALID_REQUEST, f"Invalid CIDR notation '{host}': {error}")
    return None


def _too_long(acl: AclBinding) -> KafkaError | None:
    if len(acl.resource_name) + len(acl.principal) + len(acl.host) <= MAX_ACL_CHARACTERS:
        return None
    reason = f"an ACL has at most {MAX_ACL_CHARACTERS} characters of resource name, principal and host"
    return KafkaError(Code.POLICY_VIOLATION, reason)


# The generated modules of ACL records are imported at the first such record, because most clusters have no ACLs.


def _record(acl_id: bytes, acl: AclBinding) -> LogRecord:
    module = import_module("ottla.protocol.messages.access_control_entry_record")
    message = module.AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    return metadata_record(module, message)


def _removal(acl_id: bytes) -> LogRecord:
    module = import_module("ottla.protocol.messages.remove_access_control_entry_record")
    return metadata_record(module, module.RemoveAccessControlEntryRecord(id=acl_id))
