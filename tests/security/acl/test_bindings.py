"""Filters of ACLs, and the codes of ACL fields in requests."""

from __future__ import annotations

import pytest

from ottla.security.acl.bindings import AclBindingFilter
from ottla.security.acl.codes import (
    SUPPORTED_OPERATIONS,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    of_code,
    operation_bits,
)
from tests.security.acl.acls import acl


@pytest.mark.parametrize(
    ("pattern_type", "found"),
    [
        ("LITERAL", ["foobar"]),
        ("PREFIXED", []),
        ("ANY", ["foobar"]),
        ("MATCH", ["foobar", "*", "foo"]),
    ],
)
def test_acl_filter_selects_by_pattern_type(pattern_type: str, found: list[str]) -> None:
    acls = [acl("foobar", "READ"), acl("*", "READ"), acl("foo", "READ", pattern="PREFIXED"), acl("foob", "READ")]
    selects = AclBindingFilter(resource_name="foobar", pattern_type=PatternType[pattern_type])
    assert [each.resource_name for each in acls if selects.matches(each)] == found


def test_acl_filter_selects_by_each_field_of_the_entry() -> None:
    allowed = acl("a", "READ", host="10.0.0.1")
    for changes, matches in (
        ({}, True),
        ({"principal": "User:alice", "host": "10.0.0.1"}, True),
        ({"principal": "User:bob"}, False),
        ({"host": "*"}, False),
        ({"operation": AclOperation.READ, "permission": PermissionType.ALLOW}, True),
        ({"operation": AclOperation.ALL}, False),
        ({"permission": PermissionType.DENY}, False),
        ({"resource_type": ResourceType.GROUP}, False),
    ):
        assert AclBindingFilter()._replace(**changes).matches(allowed) is matches, changes


def test_unknown_acl_codes_are_decoded_as_unknown() -> None:
    assert of_code(ResourceType, 99) is ResourceType.UNKNOWN
    assert of_code(PatternType, -1) is PatternType.UNKNOWN
    assert AclBindingFilter(pattern_type=of_code(PatternType, 9)).has_unknown_pattern
    assert AclBindingFilter(permission=of_code(PermissionType, 9)).has_unknown_entry


def test_bits_of_supported_acl_operations_equal_those_of_kafka() -> None:
    # The expected numbers are from responses of Apache Kafka without an authorizer.
    bits = {kind.name: operation_bits(SUPPORTED_OPERATIONS[kind]) for kind in list(ResourceType)[2:5]}
    assert bits == {"TOPIC": 3576, "GROUP": 3400, "CLUSTER": 8096}
