"""ACLs in the metadata log: creation, deletion, replay and snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from ottla.coordinator.metadata import acls as limits
from ottla.coordinator.metadata.acls import CIDR_HOSTS, Acls
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.protocol.messages import access_control_entry_record, remove_access_control_entry_record
from ottla.security.acl.bindings import AclBinding, AclBindingFilter
from ottla.security.acl.codes import AclOperation, PatternType, PermissionType, ResourceType
from tests.coordinator.cluster.states import seen
from tests.security.acl.acls import acl

ORDERS = acl("orders", "READ")
TEAM = acl("team-", "ALL", pattern="PREFIXED", principal="User:bob", permission="DENY", host="10.0.0.0/8")


@pytest.fixture
def state() -> ClusterState:
    return ClusterState(1)


def ids() -> Iterator[bytes]:
    return (number.to_bytes(16, "big") for number in count(1))


def create(state: ClusterState, *created: AclBinding, version: int = CIDR_HOSTS) -> list[str | None]:
    """Create ACLs and replay their records. Returns an error message or None for each ACL."""
    new = ids()
    result = state.acls.create(created, lambda: next(i for i in new if i not in state.acls.by_id), version)
    for record in result.records:
        state.replay(record)
    return [None if error is None else error.message for error in result.response]


def delete(state: ClusterState, *filters: AclBindingFilter) -> list[list[AclBinding] | KafkaError]:
    result = state.acls.delete(filters)
    for record in result.records:
        state.replay(record)
    return result.response


def test_acls_survive_a_replay_and_a_snapshot(state: ClusterState) -> None:
    assert create(state, ORDERS, TEAM) == [None, None]
    assert list(state.acls.by_id.values()) == [ORDERS, TEAM]
    assert state.acls.index.has_resource(ResourceType.TOPIC, "team-a")
    again = ClusterState(1)
    for record in state.snapshot():
        again.replay(record)
    assert seen(again) == seen(state)


def test_existing_acl_is_not_created_again(state: ClusterState) -> None:
    create(state, ORDERS)
    assert create(state, ORDERS, TEAM, TEAM) == [None, None, None]
    assert len(state.acls.by_id) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": ResourceType.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_type": ResourceType.UNKNOWN}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": PatternType.UNKNOWN}, "Invalid patternType UNKNOWN"),
        ({"operation": AclOperation.UNKNOWN}, "Invalid operation UNKNOWN"),
        ({"permission": PermissionType.UNKNOWN}, "Invalid permissionType UNKNOWN"),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type from the principal name)",
        ),
        ({"host": ""}, "Host pattern cannot be null or empty"),
        ({"host": "10.0.0/8"}, "Invalid CIDR notation '10.0.0/8': Could not parse [10.0.0/8]"),
    ],
)
def test_invalid_acl_is_refused_and_valid_acls_are_created(state: ClusterState, changes: dict[str, object], message: str) -> None:
    assert create(state, ORDERS._replace(**changes), TEAM) == [message, None]  # type: ignore[arg-type]
    assert list(state.acls.by_id.values()) == [TEAM]


def test_acl_with_a_host_range_is_refused_at_an_old_metadata_version(state: ClusterState) -> None:
    result = state.acls.create([TEAM], lambda: bytes(16), CIDR_HOSTS - 1)
    assert result.records == []
    assert [error.code for error in result.response if error is not None] == [Code.UNSUPPORTED_VERSION]


def test_acl_deletion_reports_the_acls_that_each_filter_matched(state: ClusterState) -> None:
    create(state, ORDERS, TEAM)
    of_alice, unknown = AclBindingFilter(principal="User:alice"), AclBindingFilter(operation=AclOperation.UNKNOWN)
    results = delete(state, of_alice, AclBindingFilter(), unknown, AclBindingFilter(pattern_type=PatternType.UNKNOWN))
    assert results[:2] == [[ORDERS], [ORDERS, TEAM]]
    refused = [(result.code, result.message) for result in results if isinstance(result, KafkaError)]
    assert refused == [(Code.INVALID_REQUEST, "Unknown entryFilter."), (Code.INVALID_REQUEST, "Unknown patternFilter.")]
    assert state.acls.by_id == {}
    assert not state.acls.index.has_resource(ResourceType.TOPIC, "orders")
    assert delete(state, AclBindingFilter()) == [[]]


def test_acl_filters_are_compared_only_with_acls_of_their_name_or_principal(
    state: ClusterState, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = [acl(f"t{number}", "READ", principal=f"User:u{number}") for number in range(100)]
    create(state, *created)
    compared: list[AclBinding] = []
    matches = AclBindingFilter.matches
    monkeypatch.setattr(AclBindingFilter, "matches", lambda self, acl: compared.append(acl) or matches(self, acl))
    by_name = [AclBindingFilter(resource_name=acl.resource_name) for acl in created]
    by_principal = [AclBindingFilter(principal=acl.principal) for acl in created]
    same = [AclBindingFilter(host="10.0.0.1")] * 100
    result = state.acls.delete([*by_name, *by_principal, *same])
    assert result.response == [[acl] for acl in created] * 2 + [[]] * 100
    assert len(compared) == 300
    prefix = AclBindingFilter(resource_name="t1x", pattern_type=PatternType.MATCH)
    create(state, acl("t1", "WRITE", pattern="PREFIXED"))
    assert state.acls.delete([prefix]).response == [[acl("t1", "WRITE", pattern="PREFIXED")]]


def test_too_large_delete_acls_response_is_refused(state: ClusterState, monkeypatch: pytest.MonkeyPatch) -> None:
    create(state, ORDERS, TEAM)
    monkeypatch.setattr(limits, "MAX_MATCHES", 3)
    with pytest.raises(KafkaError, match="the filters match more than 3 ACLs; give fewer filters"):
        delete(state, AclBindingFilter(), AclBindingFilter())
    assert len(state.acls.by_id) == 2


def test_describe_acls_returns_acls_in_a_fixed_order(state: ClusterState) -> None:
    create(state, TEAM, ORDERS)
    assert state.acls.matching(AclBindingFilter()) == [ORDERS, TEAM]
    assert state.acls.matching(AclBindingFilter(permission=PermissionType.DENY)) == [TEAM]


def test_create_acls_with_too_many_acls_is_refused(state: ClusterState, monkeypatch: pytest.MonkeyPatch) -> None:
    create(state, ORDERS, TEAM)
    monkeypatch.setattr(limits, "MAX_ACLS_AT_ONCE", 1)
    with pytest.raises(KafkaError, match="excessively large batch"):
        create(state, acl("a", "READ"), acl("b", "READ"))
    with pytest.raises(KafkaError, match="Cannot remove more than 1 acls in a single delete operation"):
        delete(state, AclBindingFilter(principal="User:alice"), AclBindingFilter())
    monkeypatch.setattr(limits, "MAX_ACLS", 2)
    with pytest.raises(KafkaError, match="at most 2 ACLs are allowed"):
        create(state, acl("a", "READ"))
    assert len(state.acls.by_id) == 2


def test_very_long_acl_is_refused(state: ClusterState) -> None:
    assert create(state, acl("t" * 2_980, "READ"), acl("t" * 2_990, "READ", resource_type="GROUP")) == [
        None,
        "an ACL has at most 3000 characters of resource name, principal and host",
    ]


def entry(acl_id: int, **changes: object) -> access_control_entry_record.AccessControlEntryRecord:
    fields = {"resource_type": 2, "resource_name": "t", "pattern_type": 3, "principal": "User:a", "host": "*"} | changes
    return access_control_entry_record.AccessControlEntryRecord(
        id=acl_id.to_bytes(16, "big"), operation=3, permission_type=3, **fields
    )


def test_acl_records_of_other_controllers_are_replayed(state: ClusterState) -> None:
    def removed(acl_id: int) -> None:
        message = remove_access_control_entry_record.RemoveAccessControlEntryRecord(id=acl_id.to_bytes(16, "big"))
        state.replay(metadata_record(remove_access_control_entry_record, message))

    for message in (entry(1), entry(2), entry(3, resource_type=99), entry(3, resource_name="u")):
        state.replay(metadata_record(access_control_entry_record, message))
    removed(1)
    assert state.acls.index.has_resource(ResourceType.TOPIC, "t")
    removed(2)
    assert not state.acls.index.has_resource(ResourceType.TOPIC, "t")
    assert not state.acls.index.has_resource(ResourceType.UNKNOWN, "t")
    assert state.acls.index.has_resource(ResourceType.TOPIC, "u")
    with pytest.raises(DecodeError, match="removes an ACL that does not exist"):
        removed(2)


def test_acl_index_without_acls_matches_no_filter() -> None:
    assert Acls().matching(AclBindingFilter()) == []
