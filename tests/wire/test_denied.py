"""``ottla why`` names the requests of a user that ACLs have denied, with the rule and what to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from ottla import Acl, Broker
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.wire

USER = "User:ANONYMOUS"


def why(broker: Broker, *arguments: str) -> str:
    control = broker.ready["control"]
    command = [sys.executable, "-m", "ottla", "why", *arguments, "--url", control["url"], "--token", control["token"]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_why_command_explains_the_denied_requests_of_a_user() -> None:
    with Broker(settings={"authorizer.class.name": "StandardAuthorizer"}) as broker:
        assert why(broker, USER) == f"no request of {USER} was denied since the broker started\n"
        topics = [ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition()])]
        with RawClient(broker.bootstrap) as client:
            for _ in range(2):
                client.call(ListOffsetsRequest(replica_id=-1, topics=topics))
        what, do = why(broker, USER).splitlines()
        assert what.startswith(f"{USER} was denied DESCRIBE on topic orders 2 times, last ")
        assert do == (
            "no ACL allows it (read or write or delete or alter would include it); allow it: "
            f"ottla acl add --principal {USER} --operation describe --topic orders"
        )
        (denial,) = json.loads(why(broker, USER, "--json"))["denials"]
        assert (denial["times"], denial["denied_by"]) == (2, None)


def ask(broker: Broker, user: str, *arguments: str) -> tuple[int, str]:
    config = str(broker.client_properties(user=user))
    command = [sys.executable, "-m", "ottla", *arguments, "--command-config", config]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def test_commands_say_that_acls_may_hide_topics_groups_and_ids_from_the_user() -> None:
    """Kafka leaves out topics, groups and transactional ids that a user may not describe, without an error."""
    users, acls = {"alice": "secret", "bob": "secret"}, [Acl("bob", "read", topic="orders"), Acl("bob", "read", group="billing")]
    with Broker(security="SASL_PLAINTEXT", users=users, acls=acls) as broker:
        broker.create_topic("orders")
        producer = Producer({**broker.client_config("confluent"), "transactional.id": "checkout-1"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("orders", b"paid")
        assert producer.flush(60) == 0
        assert "there are no topics that this user may describe" in ask(broker, "alice", "topic", "list")[1]
        assert "there are no groups that this user may describe" in ask(broker, "alice", "group", "list")[1]
        assert "there are no transactional ids that this user may describe" in ask(broker, "alice", "txn", "list")[1]
        assert "GROUP_AUTHORIZATION_FAILED" in ask(broker, "alice", "group", "describe", "billing")[1]
        assert "GROUP_ID_NOT_FOUND" in ask(broker, "bob", "group", "describe", "billing")[1]
        code, text = ask(broker, "bob", "txn", "why", "orders")
        assert code == 0 and "may not describe, or which hangs" in text and "txn abort" not in text
        producer.abort_transaction()


def test_commands_on_a_broker_without_acls_do_not_mention_hidden_names() -> None:
    with Broker() as broker:
        result = subprocess.run(
            [sys.executable, "-m", "ottla", "topic", "list", "--bootstrap", broker.bootstrap],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "there are no topics; " in result.stdout + result.stderr
