"""Denied requests are explained with the rule that decided, and with the command that allows them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.explain.denials import MAX_SHOWN, denied_on, denied_to, merged, why_denied

NOW_MS = 1_700_000_000_000


def denial(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "principal": "User:alice",
        "client_host": "10.0.0.7",
        "operation": "DESCRIBE_CONFIGS",
        "resource_type": "TOPIC",
        "resource": "orders",
        "denied_by": None,
        "first_ms": NOW_MS - 60_000,
        "last_ms": NOW_MS - 1_000,
        "times": 3,
    }
    return fields | changes


def test_explanation_of_a_denial_without_an_acl_names_the_command_that_allows_it() -> None:
    assert why_denied([denial()], NOW_MS) == [
        "User:alice was denied DESCRIBE_CONFIGS on topic orders 3 times, last 1.0 s ago, from 10.0.0.7",
        "no ACL allows it; allow it: ottla acl add --principal User:alice --operation describe-configs --topic orders",
    ]


@pytest.mark.parametrize(
    ("resource_type", "implying"),
    [
        ("TOPIC", "read or write or delete or alter"),
        ("GROUP", "read or delete"),
        ("TRANSACTIONAL_ID", "write"),
        ("CLUSTER", "alter"),
    ],
)
def test_explanation_of_a_denied_describe_names_the_operations_that_include_it(resource_type: str, implying: str) -> None:
    (_, do) = why_denied([denial(operation="DESCRIBE", resource_type=resource_type)], NOW_MS)
    assert do.startswith(f"no ACL allows it ({implying} would include it); allow it: ottla acl add ")


def test_explanation_of_a_denied_describe_of_a_delegation_token_names_no_other_operation() -> None:
    (_, do) = why_denied([denial(operation="DESCRIBE", resource_type="DELEGATION_TOKEN")], NOW_MS)
    assert do.startswith("no ACL allows it; allow it: ottla acl add ")


def test_explanation_of_a_denial_by_an_acl_names_the_acl() -> None:
    acl = "DENY User:* READ TOPIC ord*"
    assert why_denied([denial(denied_by=acl, times=1)], NOW_MS) == [
        "User:alice was denied DESCRIBE_CONFIGS on topic orders 1 time, last 1.0 s ago, from 10.0.0.7",
        f"an ACL denies it: {acl}; ottla acl remove --deny removes it",
    ]


def test_explanation_of_a_denial_on_the_cluster_omits_the_resource_name() -> None:
    what, do = why_denied([denial(resource_type="CLUSTER", resource="kafka-cluster", operation="ALTER")], NOW_MS)
    assert "denied ALTER on the cluster 3 times" in what
    assert do.endswith("--operation alter --cluster")


def test_suggested_acl_command_quotes_names_for_a_shell() -> None:
    (_, do) = why_denied([denial(principal="User:a b", resource_type="TRANSACTIONAL_ID", resource="x;y")], NOW_MS)
    assert "--principal 'User:a b'" in do
    assert do.endswith("--transactional-id 'x;y'")
    (_, do) = why_denied([denial(resource="--help")], NOW_MS)
    assert do.endswith("--topic=--help")
    (_, do) = why_denied([denial(resource="a\x1b[2J")], NOW_MS)
    assert "ottla acl add" not in do and "\x1b" not in do


def test_acl_denials_of_several_nodes_are_merged() -> None:
    first, second = denial(times=2, client_host="10.0.0.1"), denial(first_ms=1, last_ms=NOW_MS, denied_by="an ACL")
    other = denial(resource="payments", last_ms=NOW_MS - 500)
    newest, older = merged([[first], [other, second], []])
    assert newest == denial(first_ms=1, last_ms=NOW_MS, denied_by="an ACL", times=5)
    assert older == other
    assert merged([]) == []


def test_acl_denial_with_a_time_ahead_of_the_clients_clock_is_explained() -> None:
    assert "3 times, from" in why_denied([denial(last_ms=NOW_MS + 60_000)], NOW_MS)[0]


def test_acl_denials_that_are_not_listed_are_counted() -> None:
    assert why_denied([denial()] * (MAX_SHOWN + 2), NOW_MS)[-1] == "and 2 more denied requests"


def test_acl_denials_are_filtered_by_principal_or_by_resource() -> None:
    of_group, of_topic = denial(resource_type="GROUP", resource="billing"), denial(principal="User:bob")
    other = denial(resource_type="GROUP", resource="orders")
    assert denied_to([of_group, of_topic, other], "User:bob") == [of_topic]
    assert denied_on([of_group, of_topic, other], "billing", ["orders"]) == [of_group, of_topic]
