"""`Broker` and `Cluster` objects with security: stock clients, ACLs, sessions, certificates."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

from ottla import Acl, Broker, Cluster
from ottla.client import ClientError
from ottla.control.remote import ControlError
from tests.wire.test_console import Page
from tests.wire.test_plugin import run

pytestmark = pytest.mark.wire

CALL_S = 60
ALICE = {"alice": 'of "alice"'}
WRITES = [
    Acl("alice", "write", topic="orders"),
    Acl("alice", "read", topic="orders"),
    Acl("alice", "read", group="billing"),
    Acl("alice", "write", transactional_id="checkout", prefixed=True),
]


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker(security="SASL_SSL", users=ALICE, acls=WRITES, settings={"ottla.console": True}) as broker:
        yield broker
        assert not [line for line in broker.logs if '"level": "error"' in line]
        assert ALICE["alice"] not in "\n".join(broker.logs)


@pytest.fixture
def broker(shared: Broker) -> Broker:
    shared.reset()
    shared.create_topic("orders", 1)
    return shared


def commit(config: dict[str, Any], topic: str = "orders") -> None:
    producer = Producer({**config, "transactional.id": "checkout-1"})
    producer.init_transactions(CALL_S)
    producer.begin_transaction()
    producer.produce(topic, b"paid")
    producer.commit_transaction(CALL_S)


def reader(config: dict[str, Any], **more: Any) -> Consumer:
    consumer = Consumer({**config, "group.id": "billing", "auto.offset.reset": "earliest", **more})
    consumer.subscribe(["orders"])
    return consumer


def polled(consumer: Consumer, condition: Any) -> Any:
    """Poll until a message or error fulfils the condition, and return it."""
    deadline = time.monotonic() + CALL_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and condition(message):
            return message
    raise AssertionError("no such message")


@pytest.mark.parametrize("security", ["SSL", "mTLS", "SASL_PLAINTEXT", "SASL_SSL"])
def test_client_config_of_broker_object_commits_by_every_security_protocol(security: str) -> None:
    users: Any = {"SSL": None, "mTLS": ["alice"]}.get(security, ALICE)
    with Broker(security=security, users=users, acls=WRITES if users else None) as broker:
        broker.create_topic("orders", 1)
        commit(broker.client_config("confluent", "alice" if users else None))
        assert [record.value for record in broker.records("orders")] == [b"paid"]
        broker.restart(kill=True)
        commit(broker.client_config("confluent", "alice" if users else None))
        assert len(broker.records("orders")) == 2


def test_client_without_acl_gets_kafkas_authorization_error(broker: Broker) -> None:
    broker.create_topic("secrets", 1)
    reports: list[Any] = []
    producer = Producer(broker.client_config("confluent", "alice"))
    producer.produce("secrets", b"x", on_delivery=lambda error, _: reports.append(error.code()))
    producer.flush(CALL_S)
    assert reports == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    assert broker.records("secrets") == []
    assert any('"principal": "User:alice"' in line and "authorization_denied" in line for line in broker.logs)


def test_revoked_acl_stops_a_running_consumer(broker: Broker) -> None:
    commit(broker.client_config("confluent", "alice"))
    consumer = reader(broker.client_config("confluent", "alice"))
    assert polled(consumer, lambda message: message.error() is None).value() == b"paid"
    broker.acls.remove(Acl("alice", "read", topic="orders"))
    error = polled(consumer, lambda message: message.error() is not None).error()
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    broker.acls.add(Acl("alice", "read", topic="orders"))
    commit(broker.client_config("confluent", "alice"))
    assert polled(consumer, lambda message: message.error() is None).value() == b"paid"
    consumer.close()
    with pytest.raises(ValueError, match="unknown ACL"):
        broker.acls.remove(Acl("alice", "read", topic="nothing"))


def test_broker_reset_keeps_users_and_acls_of_the_broker_object(broker: Broker) -> None:
    broker.acls.add(Acl("bob", "all", cluster=True))
    assert Acl("User:bob", "all", cluster=True) in broker.acls.list()
    broker.reset()
    assert len(broker.acls.list()) == len(WRITES)
    broker.create_topic("orders", 1)
    commit(broker.client_config("confluent", "alice"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_broker_refuses_a_client_with_a_wrong_sasl_password(broker: Broker, mechanism: str) -> None:
    errors: list[Any] = []
    config = broker.client_config("confluent", "alice", mechanism=mechanism, password="wrong")
    admin = AdminClient({**config, "error_cb": errors.append, "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    admin.poll(0)
    assert any(error.code() == KafkaError._AUTHENTICATION for error in errors)
    right = AdminClient(broker.client_config("confluent", "alice", mechanism=mechanism))
    assert "orders" in right.list_topics(timeout=CALL_S).topics


def test_fault_on_sasl_authenticate_makes_authentication_fail(broker: Broker) -> None:
    errors: list[Any] = []
    config = broker.client_config("confluent", "alice")
    with broker.faults.add(api="SaslAuthenticate", client_id="shop", error="SASL_AUTHENTICATION_FAILED", times=None) as refused:
        admin = AdminClient({**config, "client.id": "shop", "error_cb": errors.append, "log_level": 0})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        admin.poll(0)
        assert refused.hits
        assert any(error.code() == KafkaError._AUTHENTICATION for error in errors)
    assert "orders" in admin.list_topics(timeout=CALL_S).topics


@pytest.mark.parametrize(
    ("certificate", "says"),
    [("expired", "certificate has expired"), ("other-host", "of another host"), ("untrusted", "is not trusted")],
)
def test_clients_refuse_untrusted_and_expired_certificates_and_those_of_another_host(certificate: str, says: str) -> None:
    with Broker(security="SSL") as broker:
        errors: list[Any] = []
        broker.present_certificate(certificate)
        with pytest.raises(ClientError, match=says):
            broker.records("orders")
        admin = AdminClient({**broker.client_config("confluent"), "error_cb": errors.append, "log_level": 0})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        admin.poll(0)
        assert any(error.code() == KafkaError._SSL for error in errors)
        broker.present_certificate("valid")
        assert admin.list_topics(timeout=CALL_S).brokers
        with pytest.raises(ValueError, match="'old' is not one of valid, expired, other-host, untrusted"):
            broker.present_certificate("old")


@pytest.mark.parametrize("security", ["SSL", "mTLS", "SASL_SSL"])
def test_expired_certificate_is_loaded_without_a_restart_and_open_connections_stay(security: str) -> None:
    users: dict[str, Any] = {"SSL": None, "mTLS": ["alice"], "SASL_SSL": ALICE}
    with Broker(security=security, users=users[security]) as broker:
        broker.create_topic("orders", 1)
        config = broker.client_config("confluent", None if security == "SSL" else "alice")
        producer, pid = Producer({**config, "log_level": 0}), broker.pid
        for kind in ("expired", "other-host", "untrusted", "expired"):
            send(producer)
            broker.present_certificate(kind)
            assert broker.pid == pid
            with pytest.raises(KafkaException):
                AdminClient({**config, "log_level": 0}).list_topics(timeout=1)
        send(producer)  # A new connection of the producer would be refused.
        broker.restart()
        with pytest.raises(ClientError, match="certificate has expired"):
            broker.records("orders")
        broker.present_certificate("valid")
        assert len(broker.records("orders")) == 5
        # A persistent data directory keeps no path of a temporary file.
        admin = AdminClient(config)
        (node,) = admin.list_topics(timeout=CALL_S).brokers
        described = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(node))])
        (entries,) = [future.result(CALL_S) for future in described.values()]
        dynamic = ConfigSource.DYNAMIC_BROKER_CONFIG.value
        assert not [entry.name for entry in entries.values() if entry.source == dynamic]


def test_authenticated_session_expires_on_a_manual_clock() -> None:
    settings = {"connections.max.reauth.ms": 60_000}
    with Broker(security="SASL_PLAINTEXT", users=ALICE, settings=settings, clock="manual") as broker:
        broker.create_topic("orders", 1)
        producer = Producer({**broker.client_config("confluent", "alice"), "log_level": 0})
        producer.produce("orders", b"1")
        assert producer.flush(CALL_S) == 0
        broker.clock.advance("61s")
        # librdkafka has not re-authenticated, because its own clock has not moved. The broker closes the connection, and librdkafka
        # reconnects.
        producer.produce("orders", b"2")
        assert producer.flush(CALL_S) == 0
        assert any("the session has ended" in line for line in broker.logs)
        assert [record.value for record in broker.records("orders")] == [b"1", b"2"]


def test_console_reads_records_where_every_listener_needs_credentials(broker: Broker) -> None:
    commit(broker.client_config("confluent", "alice"))
    page = Page(broker, "messages", topic="orders", partition=0)
    kind, value = page.next()
    page.close()
    assert kind == "values", value
    assert [record["value"]["text"] for record in value["records"] if not record["control"]] == ["paid"]


def ran(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=CALL_S, check=False)


def test_health_command_with_a_ready_file_needs_no_credentials(broker: Broker, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-m", "ottla"]
    serve = [*command, "serve", str(broker._security._directory / "server.properties"), "--data-dir", str(tmp_path / "data")]
    serve += ["--set", "listeners=SASL_SSL://127.0.0.1:0", "--ready-file", str(ready), "--set", "super.users=User:nobody"]
    process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        said = json.loads(line)
        local = Path(said["local"])
        assert local.is_socket() and local.stat().st_mode & 0o077 == 0
        checked = ran([*command, "health", "--ready-file", str(ready), "--json"])
        assert json.loads(checked.stdout) == {"bootstrap": str(local), "healthy": True, "warnings": []}
        without = ran([*command, "health", "--bootstrap", said["bootstrap"]])
        assert without.returncode == 1
        assert "uses TLS on this listener, but security.protocol is PLAINTEXT: give SSL in a file" in without.stderr
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert not local.exists()


def test_commands_accept_the_properties_file_of_a_secured_broker_object(broker: Broker) -> None:
    command = [sys.executable, "-m", "ottla", "topic", "list", "--json", "--command-config", str(broker.client_properties("alice"))]
    listed = ran(command)
    assert [topic["topic"] for topic in json.loads(listed.stdout)] == ["orders"]


@pytest.mark.parametrize("security", ["mTLS", "SASL_SSL"])
def test_secured_cluster_fails_over_and_its_clients_continue(security: str) -> None:
    with Cluster(3, security=security, users=["alice"] if security == "mTLS" else ALICE, acls=WRITES) as cluster:
        cluster.create_topic("orders", 1, replication_factor=3)
        commit(cluster.client_config("confluent", "alice"))
        leader = cluster.leader("orders")
        assert leader is not None
        cluster.kill(leader)
        cluster.wait_for(lambda: cluster.leader("orders") not in (None, leader), CALL_S)
        commit(cluster.client_config("confluent", "alice"))
        cluster.heal()
        assert [record.value for record in cluster.records("orders")] == [b"paid"] * 2
        assert len(cluster.acls.list()) == len(WRITES)
        assert "ssl.truststore.location" in cluster.client_properties("alice").read_text()


SUITE = """
from ottla import Acl

MARK = pytest.mark.ottla(security="SASL_PLAINTEXT", users={"alice": "secret"}, acls=[Acl("alice", "write", topic="orders")])

@MARK
def test_client_config_of_a_secured_broker_produces_a_record(ottla):
    ottla.create_topic("orders")
    producer = Producer(ottla.client_config("confluent", "alice"))
    producer.produce("orders", b"hello")
    assert producer.flush(60) == 0
    assert [record.value for record in ottla.records("orders")] == [b"hello"]

@MARK
def test_next_test_with_the_same_security_shares_the_broker(ottla):
    assert len(ottla.records("orders")) == 1

def test_unmarked_test_gets_a_plaintext_broker(ottla):
    assert topics(ottla.client_config("confluent")["bootstrap.servers"]) == set()

@pytest.mark.ottla(security="SASL_PLAINTEXT", users={"alice": "secret"})
def test_failing_test_reports_its_secured_broker(ottla):
    raise AssertionError("reported")
"""


def test_plugin_marker_selects_a_secured_broker(tmp_path: Path) -> None:
    code, output = run(tmp_path, SUITE)
    assert "1 failed, 3 passed" in output, output
    assert code == 1
    assert "cannot be shown" not in output
    assert "secret" not in output.replace('{"alice": "secret"}', "")
    code, output = run(tmp_path, "@pytest.mark.ottla(users='alice')\ndef test_security_marker_is_refused(ottla): ...")
    assert """the marker ottla needs users={"alice": "secret"}, not 'alice'""" in output
    code, output = run(tmp_path, SUITE, "-k", "secured", OTTLA_BOOTSTRAP="127.0.0.1:1")
    assert "2 skipped" in output


def test_tls_handshake_fault_fails_the_next_handshakes_of_a_listener(broker: Broker) -> None:
    errors: list[Any] = []
    config = {**broker.client_config("confluent", "alice"), "error_cb": errors.append, "log_level": 0}
    with pytest.raises(ControlError, match="no TLS handshake can fail on SASL_SLL: the listeners with TLS are SASL_SSL"):
        broker.faults.fail_handshake(listener="SASL_SLL")
    with broker.faults.fail_handshake(listener="SASL_*", times=2) as failed:
        host, _, port = broker.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), CALL_S):
            pass  # Opening and closing the port is no TLS handshake.
        admin = AdminClient(config)
        # librdkafka connects again, and its third handshake succeeds.
        assert "orders" in admin.list_topics(timeout=CALL_S).topics
        assert failed.hits == 2
        assert "orders" in AdminClient(config).list_topics(timeout=CALL_S).topics
        assert failed.view()["newest_hits"][0]["listener"] == "SASL_SSL"
        control = broker.ready["control"]
        asking = Request(f"{control['url']}/metrics", headers={"Authorization": f"Bearer {control['token']}"})
        with urlopen(asking, timeout=CALL_S) as answer:
            lines = answer.read().decode().splitlines()
        name = "kafka_server_socket_server_metrics_failed_authentication_total"
        (counted,) = (line.split()[-1] for line in lines if line.startswith(f'{name}{{listener="SASL_SSL"}}'))
        assert float(counted) >= 2
    admin.poll(0)
    assert any(error.code() == KafkaError._SSL and "handshake failure" in error.str() for error in errors)


def connected(broker: Broker, client_id: str) -> Producer:
    """A producer of alice with an open connection."""
    producer = Producer({**broker.client_config("confluent", "alice"), "client.id": client_id, "log_level": 0})
    send(producer)
    return producer


def send(producer: Producer) -> None:
    errors: list[KafkaError | None] = []
    producer.produce("orders", b"paid", on_delivery=lambda error, _: errors.append(error))
    producer.flush(CALL_S)
    assert errors == [None]


def test_control_command_closes_the_connections_of_one_client(broker: Broker) -> None:
    producer = connected(broker, "app")
    assert broker.faults.disconnect(user="bob") == broker.faults.disconnect(user="alice", client_id="other") == 0
    assert broker.faults.disconnect(user="al*", client_id="app") >= 1
    send(producer)
    assert any("the control API has ended the connection" in line for line in broker.logs)
    with pytest.raises(ControlError, match="give user, client_id or both"):
        broker.faults.disconnect()


def test_broker_objects_own_connections_are_closed_only_by_their_exact_client_id(broker: Broker) -> None:
    with broker.open_client() as client:
        assert client.topics()
        assert broker.faults.disconnect(user="*", client_id="ottla-*") == 0
        assert broker.faults.disconnect(client_id="ottla-handle") >= 1


def test_expired_sasl_session_ends_the_connection_at_the_next_request(broker: Broker) -> None:
    producer = connected(broker, "expired")
    assert broker.faults.expire_sessions(user="alice", client_id="other") == 0
    assert broker.faults.expire_sessions(client_id="expired") >= 1
    send(producer)
    assert any("the session has ended" in line for line in broker.logs)


def test_fault_commands_disconnect_clients_and_expire_sasl_sessions(broker: Broker) -> None:
    producer = connected(broker, "cli")
    control = ["--url", broker.ready["control"]["url"], "--token", broker.ready["control"]["token"]]
    line = [sys.executable, "-m", "ottla", "fault"]
    for command, what in (("expire-sessions", "sessions"), ("disconnect", "connections")):
        done = subprocess.run(
            [*line, command, "--client-id", "cli", *control, "--json"], capture_output=True, check=True, timeout=CALL_S
        )
        assert json.loads(done.stdout)[what] >= 1
        send(producer)
    refused = subprocess.run([*line, "disconnect", *control], capture_output=True, check=False, text=True, timeout=CALL_S)
    assert refused.returncode
    assert "give --user, --client-id or both" in refused.stderr
