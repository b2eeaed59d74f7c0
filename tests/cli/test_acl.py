"""``ottla acl``: resources, and operations that a resource does not have."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli import acl
from ottla.client.admin import acls
from ottla.client.explain.denials import why_denied
from ottla.security.acl.bindings import AclBinding
from ottla.security.acl.codes import SUPPORTED_OPERATIONS, AclOperation, ResourceType


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[AclBinding]:
    """Return a list to which commands add ACLs, in place of a cluster."""
    made: list[AclBinding] = []

    @contextmanager
    def cluster_at(bootstrap: str, timeout_s: float) -> Iterator[Any]:
        yield SimpleNamespace(brokers=None)

    monkeypatch.setattr(acl, "cluster_at", cluster_at)
    monkeypatch.setattr(acls, "add_acls", lambda brokers, new: made.extend(new))
    return made


def add(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(acl.command, ["add", *arguments])
    return result.exit_code, result.output


CASES = [(kind, operation) for kind in SUPPORTED_OPERATIONS for operation in AclOperation if operation > AclOperation.ANY]
FLAGS = {
    ResourceType.TOPIC: ["--topic", "orders"],
    ResourceType.GROUP: ["--group", "billing"],
    ResourceType.CLUSTER: ["--cluster"],
    ResourceType.TRANSACTIONAL_ID: ["--transactional-id", "checkout"],
    ResourceType.DELEGATION_TOKEN: ["--delegation-token", "t-1"],
    ResourceType.USER: ["--user-principal", "bob"],
}


@pytest.mark.parametrize(("kind", "operation"), CASES)
def test_acl_that_could_never_match_is_refused(added: Sequence[AclBinding], kind: ResourceType, operation: AclOperation) -> None:
    name = acls.named(operation)
    code, output = add("--principal", "alice", "--operation", name, *FLAGS[kind])
    if operation is AclOperation.ALL or operation in SUPPORTED_OPERATIONS[kind]:
        assert (code, [(made.resource_type, made.operation) for made in added]) == (0, [(kind, operation)])
    else:
        assert code == 2 and not added
        assert f"--operation {name}: a {acls.named(kind).replace('-', ' ')} has no such operation; give one of" in output


def test_acl_operation_must_apply_to_every_given_resource(added: Sequence[AclBinding]) -> None:
    code, output = add("--principal", "alice", "--operation", "write", "--topic", "orders", "--group", "billing")
    assert code == 2 and not added and "a group has no such operation; give one of read, describe, delete" in output


def test_acl_add_command_completes_the_user_principal_option_to_a_kafka_principal(added: Sequence[AclBinding]) -> None:
    assert add("--principal", "alice", "--operation", "create-tokens", "--user-principal", "bob")[0] == 0
    assert [made.resource_name for made in added] == ["User:bob"]


@pytest.mark.parametrize("kind", SUPPORTED_OPERATIONS)
def test_command_that_ottla_why_suggests_adds_the_acl(added: list[AclBinding], kind: ResourceType) -> None:
    resource = {ResourceType.CLUSTER: "kafka-cluster", ResourceType.USER: "User:b b"}.get(kind, "--an order's")
    for operation in SUPPORTED_OPERATIONS[kind]:
        denial = {"principal": "User:a;b", "client_host": "", "operation": operation.name, "resource_type": kind.name}
        (_, do) = why_denied([{**denial, "resource": resource, "denied_by": None, "last_ms": 0, "times": 1}], 0)
        assert add(*shlex.split(do.partition("ottla acl add ")[2]))[0] == 0
        made = added.pop()
        assert (made.principal, made.operation, made.resource_type, made.resource_name) == ("User:a;b", operation, kind, resource)
