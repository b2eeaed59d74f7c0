"""Clients that authenticate at an `ottla.Broker` or `ottla.Cluster` by a delegation token act as the token's owner."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ottla import Acl, Broker, Cluster
from ottla.client import ClientError, KafkaClient
from ottla.client.security.client_config import Connecting
from ottla.testing.security.delegation_token import DelegationToken
from tests.support.waiting import wait_until
from tests.wire.secured_clients.programs import go_program, java_program

pytestmark = pytest.mark.wire

USERS = {"alice": "secret", "bob": "hush"}
ACLS = [
    Acl("alice", "all", topic="orders"),
    Acl("alice", "read", group="billing"),
    Acl("alice", "write", transactional_id="checkout-1"),
]
PROGRAM_S = 300


def topics(broker: Broker | Cluster, token: DelegationToken) -> list[str]:
    """Return the topics that the token's owner may describe."""
    config = broker.client_config("java", token=token)
    with KafkaClient(broker.bootstrap, 30, connecting=Connecting.parse(config, prefix="")) as client:
        return sorted(topic.name or "" for topic in client.brokers.metadata(None).topics)


@pytest.mark.parametrize("security", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_client_with_a_delegation_token_has_the_permissions_of_its_owner(security: str) -> None:
    with Broker(security=security, users=USERS, acls=ACLS) as broker:
        broker.create_topic("orders", 1)
        tokens = {user: broker.delegation_token(user=user) for user in USERS}
        assert topics(broker, tokens["alice"]) == ["orders"]
        assert topics(broker, tokens["bob"]) == []
        assert tokens["alice"].hmac not in repr(tokens)
        broker.restart()
        assert topics(broker, tokens["alice"]) == ["orders"]
        assert not [line for line in broker.logs for token in tokens.values() if token.hmac in line]


def test_delegation_token_ends_on_a_manual_clock() -> None:
    with Broker(security="SASL_PLAINTEXT", users=USERS, clock="manual") as broker:
        token = broker.delegation_token("alice")
        assert topics(broker, token) == []
        broker.clock.advance("25h")
        refused: list[ClientError] = []

        def is_refused() -> bool:
            try:
                topics(broker, token)
            except ClientError as error:
                refused.append(error)
            return bool(refused)

        wait_until(is_refused)
        assert token.hmac not in str(refused)


def test_new_delegation_token_is_known_to_all_brokers_of_a_cluster() -> None:
    with Cluster(2, security="SASL_PLAINTEXT", users=USERS, acls=ACLS) as cluster:
        cluster.create_topic("orders", 1)
        token = cluster.delegation_token("alice")
        for address in cluster.bootstrap.split(","):
            config = cluster.client_config("java", token=token) | {"bootstrap.servers": address}
            with KafkaClient(address, 30, connecting=Connecting.parse(config, prefix="")) as client:
                assert [topic.name for topic in client.brokers.metadata(None).topics] == ["orders"]


@pytest.mark.full
@pytest.mark.parametrize("client", ["java", "franz-go"])
def test_stock_client_commits_a_transaction_with_a_delegation_token(client: str, tmp_path: Path) -> None:
    program = java_program() if client == "java" else go_program(client)
    with Broker(security="SASL_SSL", users=USERS, acls=ACLS) as broker:
        broker.create_topic("orders", 1)
        token = broker.delegation_token("alice")
        argument = (
            str(broker.client_properties(token=token))
            if client == "java"
            else json.dumps(broker.client_config(client, token=token))
        )
        done = subprocess.run([*program, argument], capture_output=True, text=True, timeout=PROGRAM_S, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, "paid"), done.stderr
        assert [record.value for record in broker.records("orders")] == [b"paid"]
