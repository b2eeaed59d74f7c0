"""Controllers of ottla and of Apache Kafka refuse requests of brokers that a client without CLUSTER_ACTION sends.

An envelope would let a client act as any user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.create_acls import CreateAclsRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.controller.denied_requests import ALL_ACLS, CASES, REQUESTS, forged
from tests.broker.handlers.authorised_broker import AUTHORIZER, creation
from tests.security.acl.acls import acl
from tests.support import oracle
from tests.support.raw_client import RawClient
from tests.wire.secured import LOGIN
from tools.kafka import ApacheKafka, Unavailable
from tools.ottla_node import OttlaNode

pytestmark = [pytest.mark.wire, pytest.mark.java]

NODE_ID = 3000
USERS = ("admin", "alice", "bob")
SETTINGS = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{LOGIN}.plain.PlainLoginModule required username="admin" password="of admin" '
        + " ".join(f'user_{user}="of {user}"' for user in USERS)
        + ";"
    ),
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:admin",
}


@dataclass(frozen=True)
class Controller:
    address: str
    cluster_id: str

    def connect(self, user: str) -> RawClient:
        client = RawClient(self.address)
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert client.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0of {user}".encode()), 2).error_code == 0
        return client


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    node = ApacheKafka(tmp_path_factory.mktemp("kafka"), node_id=NODE_ID, settings=SETTINGS, is_controller=True)
    try:
        node.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield begun(node)
    node.stop()


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    node = OttlaNode(tmp_path_factory.mktemp("ottla"), node_id=NODE_ID, settings=SETTINGS)
    node.start()
    yield begun(node)
    node.stop()
    assert not [line for line in node.logs if '"level": "error"' in line]


def begun(node: ApacheKafka | OttlaNode) -> Controller:
    """Allow bob what brokers may do, and wait until the controller has applied the ACL."""
    host, port = node.controller
    controller = Controller(f"{host}:{port}", node.cluster_id)
    granted = creation(acl("kafka-cluster", "CLUSTER_ACTION", principal="User:bob", resource_type="CLUSTER"))

    def is_allowed() -> bool:
        admin, bob = controller.connect("admin"), controller.connect("bob")
        admin.call(CreateAclsRequest(creations=[granted]), 3)
        error = bob.call(AllocateProducerIdsRequest(broker_id=1, broker_epoch=1), 0).error_code
        admin.socket.close()
        bob.socket.close()
        return bool(error == Code.STALE_BROKER_EPOCH)

    oracle.wait_for("bob has CLUSTER_ACTION", is_allowed, bool)
    return controller


def error_of(response: Any) -> int:
    code: int = response.error_code
    return code


@pytest.mark.parametrize(("name", "version"), CASES)
def test_controller_denies_requests_of_brokers_to_a_client_as_kafka_does(
    ottla: Controller, kafka: Controller, name: str, version: int
) -> None:
    answers = []
    for controller in (ottla, kafka):
        client = controller.connect("alice")
        answers.append(client.call(REQUESTS[name](), version))
        client.socket.close()
    assert answers[0] == answers[1]
    assert error_of(answers[0]) == Code.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("name", "version"), CASES)
def test_controller_handles_requests_of_brokers_with_cluster_action(
    ottla: Controller, kafka: Controller, name: str, version: int
) -> None:
    for controller in (ottla, kafka):
        client = controller.connect("bob")
        assert error_of(client.call(REQUESTS[name](), version)) != Code.CLUSTER_AUTHORIZATION_FAILED
        client.socket.close()


def test_client_cannot_give_itself_permissions_by_an_envelope_of_a_super_user(ottla: Controller, kafka: Controller) -> None:
    for controller in (ottla, kafka):
        alice, admin = controller.connect("alice"), controller.connect("admin")
        assert alice.call(forged(), 0).error_code == Code.CLUSTER_AUTHORIZATION_FAILED
        assert alice.call(ALL_ACLS, 3).error_code == Code.CLUSTER_AUTHORIZATION_FAILED
        acls = [entry.principal for resource in admin.call(ALL_ACLS, 3).resources for entry in resource.acls]
        assert acls == ["User:bob"]
        alice.socket.close()
        admin.socket.close()
