"""Scenario commands for ACLs, and requests under each of several ACLs, on a broker with an authorizer.

A command with ``by=alice`` is sent by the user alice, and all others by a client with all permissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.security.acl.bindings import AclBinding, AclBindingFilter
from ottla.security.acl.codes import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from ottla.simulation.client import Closed
from tests.scenarios.verbs import VERBS, verb
from tests.scenarios.world import Ask, Words, World, name_of

KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "tid": ResourceType.TRANSACTIONAL_ID,
    "user": ResourceType.USER,
    "token": ResourceType.DELEGATION_TOKEN,
    "cluster": ResourceType.CLUSTER,
}
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY


@verb
def allow(world: World, words: Words) -> str:
    """Add ACLs that allow operations, by default from all hosts.

    Command: ``allow alice READ,WRITE topic=t [host=10.0.0.1]``. ``topic=t*`` allows the prefix t, and ``topic=*`` all topics. Other
    kinds are ``group=g``, ``tid=x``, ``user=bob``, ``token=x``, and the word ``cluster``.
    """
    return _add(world, words, ALLOW)


@verb
def deny(world: World, words: Words) -> str:
    """Add ACLs that deny operations. Command: ``deny`` with the arguments of ``allow``."""
    return _add(world, words, DENY)


def _add(world: World, words: Words, permission: PermissionType) -> str:
    user, operations = words.plain[:2]
    host = words.options.pop("host", WILDCARD)
    kind, name, pattern = _pattern(world, words)
    added = [
        AclBinding(kind, name, pattern, _principal(world, user), host, AclOperation[operation], permission)
        for operation in operations.split(",")
    ]
    have = world.acls.setdefault(user, [])
    have += [acl for acl in added if acl not in have]
    _create(world, added)
    _await_acls(world, user, have)
    return ""


@verb
def revoke(world: World, words: Words) -> str:
    """Delete all ACLs of a user. Command: ``revoke alice``."""
    user = words.plain[0]
    del world.acls[user]
    _delete(world, [AclBindingFilter(principal=_principal(world, user))])
    _await_acls(world, user, [])
    return ""


@verb
def under(world: World, words: Words) -> str:
    """Send a request as several users, each with alice's ACLs and one more, and show which response each additional ACL leads to.

    Command: ``under alice topic=t ask ApiName {"field": 1}``. ``none`` adds no ACL, and ``-READ`` adds an ACL for all operations
    and one that denies READ. ``PREFIX`` allows all operations on a prefix of the name, ``*`` on all names.
    """
    user, inner = words.plain[0], [word for word in words.plain[1:] if word != "cluster"]
    kind, name, _ = _pattern(world, words)
    options = {key: value for key, value in words.options.items() if key not in KINDS}
    created, users = list[AclBinding](), list[tuple[str, str]]()
    for label, further in _situations(kind, name):
        world.users += 1
        other = f"{user}{world.users}"
        users.append((label, other))
        own = dict.fromkeys(acl._replace(principal=_principal(world, other)) for acl in (*world.acls.get(user, ()), *further))
        created += own
    # Apache Kafka applies the ACLs of one request together, so when the last user has its ACL, all users have theirs.
    _create(world, created)
    _await_acls(world, other, list(own))
    answers = dict[str, list[str]]()
    for label, other in users:
        made = VERBS[inner[0]](world, Words(words.name, inner[0], inner[1:], dict(options), words.json, other))
        assert isinstance(made, Ask)
        made.user = other
        answers.setdefault(world.ask(made, {"once"} & set(inner)), []).append(label)
        world.forget_connection(other)
    _delete(world, [AclBindingFilter(principal=_principal(world, other)) for _, other in users])
    return " | ".join(f"{' '.join(labels)}: {answer}" for answer, labels in answers.items())


def _situations(kind: ResourceType, name: str) -> Iterable[tuple[str, list[AclBinding]]]:
    def acl(operation: AclOperation, permission: PermissionType = ALLOW, name: str = name, prefixed: bool = False) -> AclBinding:
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        return AclBinding(kind, name, pattern, "", WILDCARD, operation, permission)

    yield "none", []
    for operation in SUPPORTED_OPERATIONS[kind]:
        yield operation.name, [acl(operation)]
    yield "ALL", [acl(AclOperation.ALL)]
    if kind is not ResourceType.CLUSTER:
        yield "PREFIX", [acl(AclOperation.ALL, name=name[:-1], prefixed=True)]
        yield "*", [acl(AclOperation.ALL, name=WILDCARD)]
    for operation in SUPPORTED_OPERATIONS[kind]:
        yield f"-{operation.name}", [acl(AclOperation.ALL), acl(operation, DENY)]


@verb
def unacknowledged(world: World, words: Words) -> str:
    """Send a Produce request with acks=0, and show whether the connection is still open. Command: ``unacknowledged t by=alice``."""
    name, index = world.partition(words.plain[0])
    data = PartitionProduceData(index=index, records=bytes(build_batch([(None, b"v")], world.broker.now_ms())))
    request = ProduceRequest(acks=0, timeout_ms=1_000, topic_data=[TopicProduceData(name=name, partition_data=[data])])
    client = world.client_of(words.user)
    try:
        client.send(request, 9)
        return name_of(client.call(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3).error_code)
    except Closed:
        world.forget_connection(words.user)
        return "closed"


def _principal(world: World, user: str) -> str:
    return f"User:{WILDCARD if user == 'everyone' else world.real(user)}"


def _pattern(world: World, words: Words) -> tuple[ResourceType, str, PatternType]:
    if "cluster" in words.plain:
        return ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL
    ((key, text),) = [(key, words.options[key]) for key in KINDS if key in words.options]
    if text == WILDCARD:
        return KINDS[key], WILDCARD, PatternType.LITERAL
    pattern = PatternType.PREFIXED if text.endswith("*") else PatternType.LITERAL
    name = world.real(text.removesuffix("*"))
    return KINDS[key], f"User:{name}" if key == "user" else name, pattern


def _delete(world: World, selected: Iterable[AclBindingFilter]) -> None:
    filters = [
        DeleteAclsFilter(
            resource_type_filter=one.resource_type,
            resource_name_filter=one.resource_name,
            pattern_type_filter=one.pattern_type,
            principal_filter=one.principal,
            host_filter=one.host,
            operation=one.operation,
            permission_type=one.permission,
        )
        for one in selected
    ]
    _check(world.call(DeleteAclsRequest(filters=filters)).filter_results)


def _create(world: World, acls: Sequence[AclBinding]) -> None:
    creations = [
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
    _check(world.call(CreateAclsRequest(creations=creations)).results)


def _check(results: Iterable[Any]) -> None:
    for result in results:
        assert result.error_code == 0, f"{name_of(result.error_code)} {result.error_message}"


def _await_acls(world: World, user: str, wanted: Sequence[AclBinding]) -> None:
    """Wait until the broker authorizes by these ACLs. Apache Kafka applies them after its response to the request."""
    request = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=_principal(world, user),
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=PermissionType.ANY,
    )

    def look() -> int:
        return sum(len(resource.acls) for resource in world.call(request).resources)

    world.until(f"{user} has {len(wanted)} ACLs", look, lambda count: count == len(wanted))
