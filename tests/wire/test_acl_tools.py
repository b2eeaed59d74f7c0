"""kafka-acls, and the ACL calls of the stock clients, on brokers with the authorizer: ottla and Apache Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.raw_client import RawClient, create
from tests.wire.secured import LOGIN
from tests.wire.tokens import brokers
from tests.wire.tokens.brokers import PASSWORD, Addresses
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.full]

PATIENCE_S = 60.0
ACL_COMMAND = "org.apache.kafka.tools.AclCommand"
ANY_ACL = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
RESOURCE = re.compile(r"resourceType=(\w+), name=(\S+), patternType=(\w+)")
ENTRY = re.compile(r"\(principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)\)")


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.java)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    start = brokers.ottla if request.param == "ottla" else brokers.kafka
    with start(tmp_path_factory.mktemp("acls") / "broker", has_key=False) as addresses:
        with RawClient(addresses.plain) as client:
            create(client, "orders")
        yield addresses


@pytest.fixture(autouse=True)
def no_acls(broker: Addresses) -> Iterator[None]:
    """Remove each test's ACLs."""
    yield
    admin = AdminClient(librdkafka(broker, "admin"))
    (removed,) = admin.delete_acls([ANY_ACL]).values()
    removed.result(PATIENCE_S)


def librdkafka(broker: Addresses, user: str) -> dict[str, Any]:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": PASSWORD}
    return {"bootstrap.servers": broker.secured, "log_level": 0, **given}


def may_write(broker: Addresses, user: str, topic: str = "orders") -> bool:
    """Whether a new producer of a user may write to a topic."""
    refused: list[KafkaError | None] = []
    producer = Producer({**librdkafka(broker, user), "message.timeout.ms": int(PATIENCE_S * 1_000)})
    producer.produce(topic, b"paid", on_delivery=lambda error, message: refused.append(error))
    assert producer.flush(PATIENCE_S) == 0
    (error,) = refused
    assert error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
    return error is None


class AclTool:
    """kafka-acls, run by a user."""

    def __init__(self, broker: Addresses, directory: Path, user: str) -> None:
        jaas = f'{LOGIN}.plain.PlainLoginModule required username="{user}" password="{PASSWORD}";'
        self._address, self._properties = broker.secured, directory / f"{user}.properties"
        self._properties.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")

    def text(self, *arguments: str, check: bool = True) -> str:
        given = ("--bootstrap-server", self._address, "--command-config", str(self._properties))
        return kafka.tool(ACL_COMMAND, *given, *arguments, check=check)

    def acls(self, *arguments: str) -> set[str]:
        """The printed ACLs, as ``PERMISSION PRINCIPAL from HOST OPERATION TYPE NAME PATTERN``."""
        printed, resource = set(), ""
        for line in self.text(*arguments).splitlines():
            if found := RESOURCE.search(line):
                resource = " ".join(found.groups())
            elif found := ENTRY.search(line):
                principal, host, operation, permission = found.groups()
                printed.add(f"{permission} {principal} from {host} {operation} {resource}")
        return printed


@pytest.mark.java
def test_kafka_acls_tool_adds_lists_and_removes_acls(broker: Addresses, tmp_path: Path) -> None:
    tool = AclTool(broker, tmp_path, "admin")
    assert not may_write(broker, "alice")
    producer = ("--producer", "--topic", "orders", "--transactional-id", "checkout")
    of_topic = {f"ALLOW User:alice from * {operation} TOPIC orders LITERAL" for operation in ("WRITE", "DESCRIBE", "CREATE")}
    of_id = {f"ALLOW User:alice from * {operation} TRANSACTIONAL_ID checkout LITERAL" for operation in ("WRITE", "DESCRIBE")}
    assert tool.acls("--add", "--allow-principal", "User:alice", *producer) == of_topic | of_id
    assert tool.acls("--list") == of_topic | of_id
    assert tool.acls("--list", "--principal", "User:alice", "--topic", "orders") == of_topic
    assert tool.acls("--list", "--principal", "User:bob") == set()
    assert may_write(broker, "alice")
    prefixed = ("--topic", "ord", "--resource-pattern-type", "prefixed")
    denied = {"DENY User:alice from 127.0.0.1 WRITE TOPIC ord PREFIXED"}
    of_alice = ("--deny-principal", "User:alice", "--deny-host", "127.0.0.1", "--operation", "Write")
    assert tool.acls("--add", *of_alice, *prefixed) == denied
    assert tool.acls("--list", "--topic", "orders", "--resource-pattern-type", "match") == of_topic | denied
    assert not may_write(broker, "alice")
    assert tool.acls("--remove", *prefixed, "--force") == set()
    assert may_write(broker, "alice")
    tool.text("--remove", "--allow-principal", "User:alice", *producer[:3], "--force")
    assert tool.acls("--list") == of_id
    assert not may_write(broker, "alice")


@pytest.mark.java
def test_kafka_acls_tool_of_a_user_without_permission_is_refused(broker: Addresses, tmp_path: Path) -> None:
    alice = AclTool(broker, tmp_path, "alice")
    added = ("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    for arguments in (added, ("--list",), ("--remove", "--topic", "orders", "--force")):
        assert "ClusterAuthorizationException" in alice.text(*arguments, check=False)
    admin = AclTool(broker, tmp_path, "admin")
    assert admin.acls("--list") == set()
    admin.text("--add", "--allow-principal", "User:alice", "--operation", "Alter", "--operation", "Describe", "--cluster")
    assert "ALLOW User:alice from * READ TOPIC orders LITERAL" in alice.acls(*added)
    assert len(alice.acls("--list")) == 3


def binding(
    operation: AclOperation, name: str = "orders", pattern: ResourcePatternType = ResourcePatternType.LITERAL
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern, "User:bob", "*", operation, AclPermissionType.ALLOW)


def test_confluent_admin_client_creates_describes_and_deletes_acls(broker: Addresses) -> None:
    admin = AdminClient(librdkafka(broker, "admin"))
    write, read = binding(AclOperation.WRITE), binding(AclOperation.READ, "ord", ResourcePatternType.PREFIXED)
    assert not may_write(broker, "bob")
    created = admin.create_acls([write, read, binding(AclOperation.IDEMPOTENT_WRITE, "*")])
    assert [future.result(PATIENCE_S) for future in created.values()] == [None] * 3
    assert may_write(broker, "bob")
    of_orders = AclBindingFilter(
        ResourceType.TOPIC, "orders", ResourcePatternType.MATCH, "User:bob", None, AclOperation.ANY, AclPermissionType.ALLOW
    )
    assert len(admin.describe_acls(of_orders).result(PATIENCE_S)) == 3
    literal = AclBindingFilter(
        ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(literal).result(PATIENCE_S) == [write]
    (deleted,) = admin.delete_acls([literal]).values()
    assert deleted.result(PATIENCE_S) == [write]
    assert read in admin.describe_acls(ANY_ACL).result(PATIENCE_S)
    assert not may_write(broker, "bob")


def test_confluent_admin_client_of_a_user_without_permission_is_refused(broker: Addresses) -> None:
    admin, bob = AdminClient(librdkafka(broker, "admin")), AdminClient(librdkafka(broker, "bob"))
    (created,) = admin.create_acls([binding(AclOperation.READ)]).values()
    created.result(PATIENCE_S)
    (created,) = bob.create_acls([binding(AclOperation.WRITE)]).values()
    (deleted,) = bob.delete_acls([ANY_ACL]).values()
    for future in (created, deleted):
        with pytest.raises(KafkaException) as refused:
            future.result(PATIENCE_S)
        assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    # librdkafka does not report a refused DescribeAcls.
    assert bob.describe_acls(ANY_ACL).result(PATIENCE_S) == []
    assert admin.describe_acls(ANY_ACL).result(PATIENCE_S) == [binding(AclOperation.READ)]


def test_kafka_python_admin_client_creates_describes_and_deletes_acls(broker: Addresses) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import ACL, ACLFilter, ACLOperation, ACLPermissionType, ResourcePattern, ResourcePatternFilter
    from kafka.admin import ACLResourcePatternType as Pattern
    from kafka.admin import ResourceType as Type
    from kafka.errors import ClusterAuthorizationFailedError, NoError

    def connected(user: str) -> KafkaAdminClient:
        sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        return KafkaAdminClient(bootstrap_servers=broker.secured, sasl_plain_username=user, sasl_plain_password=PASSWORD, **sasl)

    anything = (ACLOperation.ANY, ACLPermissionType.ANY)
    every = ACLFilter(None, None, *anything, ResourcePatternFilter(Type.ANY, None, Pattern.ANY))
    write = ACL("User:carol", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, ResourcePattern(Type.TOPIC, "orders"))
    deny = ACL("User:eve", "10.0.0.0", ACLOperation.ALL, ACLPermissionType.DENY, ResourcePattern(Type.GROUP, "b", Pattern.PREFIXED))
    admin, carol = connected("admin"), connected("carol")
    try:
        assert not may_write(broker, "carol")
        assert admin.create_acls([write, deny]) == {"succeeded": [write, deny], "failed": []}
        assert may_write(broker, "carol")
        described, error = admin.describe_acls(every)
        assert error is NoError and set(described) == {write, deny}
        with pytest.raises(ClusterAuthorizationFailedError):
            carol.describe_acls(every)
        of_carol = ACLFilter("User:carol", None, *anything, ResourcePatternFilter(Type.TOPIC, "orders", Pattern.ANY))
        ((_, removed, error),) = admin.delete_acls([of_carol])
        assert error is NoError and removed == [write]
        assert not may_write(broker, "carol")
        assert admin.describe_acls(every)[0] == [deny]
    finally:
        admin.close()
        carol.close()
