"""Start the image as each library does, without a container engine, and commit a transaction through the published port."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla.client import KafkaClient
from ottla.client.admin.description import describe
from ottla.client.security.client_config import Connecting
from ottla.client.wire.connection import BrokerConnection
from ottla.client.wire.transport import SocketTransport
from tests.client.security.certificates import pkcs12_store
from tests.container.committing import commit
from tests.container.launches import CLUSTER_ID, LAUNCHES, Launch, Where
from tests.container.running import Container, Started

pytestmark = pytest.mark.wire


def ready(container: Container) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(container.wait_for('"event": "ready"'))
    return line


@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch.name)
def test_image_launched_by_each_testing_library_commits_a_transaction(started: Started, launch: Launch) -> None:
    container = started(command=launch.command, entrypoint=launch.entrypoint, environment=launch.environment, ports=(launch.port,))
    if launch.waiting:
        container.wait_for(launch.waiting)
    mapped_port = container.published[launch.port]
    script = "\n".join(launch.script(Where(mapped_port, container.hostname)))
    container.put(launch.script_path, script.encode(), mode=launch.script_mode)
    container.wait_for(launch.waits_for)
    for port in launch.waits_for_ports:
        container.wait_for_port(port)
    assert len([line for line in container.text.splitlines() if "Transitioning from RECOVERY to RUNNING" in line]) == 1
    assert commit(f"localhost:{mapped_port}") == [b"committed"]
    assert launch.cluster_id in (None, ready(container)["cluster_id"])
    health = container.run(*container.image.health)
    assert (health.returncode, health.stdout) == (0, f"127.0.0.1:{_listening(container)} answers\n")
    assert '"level": "error"' not in container.text


def _listening(container: Container) -> str:
    """Return the port of the first listener, to which the health check connects."""
    return str(next(iter(ready(container)["listening"].values()))).rpartition(":")[2]


@pytest.mark.smoke
def test_docker_run_serves_the_published_port_and_docker_stop_exits_with_0(started: Started) -> None:
    """The steps are those of ``docker run -p 9092:9092`` and ``docker stop``: process 1 handles SIGTERM and shuts down cleanly."""
    container = started(ports=(9092,))
    container.wait_for("Kafka Server started")
    assert ready(container)["bootstrap"] == "localhost:9092"
    assert ready(container)["pid"] == 1
    health = container.run(*container.image.health)
    assert (health.returncode, health.stdout) == (0, "127.0.0.1:9092 answers\n")
    assert container.run("ottla", "topic", "list").returncode == 0
    assert container.stop() == 0
    assert container.image.at("data/.kafka_cleanshutdown").exists()


def test_health_check_of_the_image_uses_the_configured_port(started: Started) -> None:
    container = started(
        environment={"KAFKA_ADVERTISED_LISTENERS": "IN://localhost:19092", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "IN:PLAINTEXT"}
    )
    container.wait_for("Kafka Server started")
    health = container.run(*container.image.health)
    assert (health.returncode, health.stdout) == (0, "127.0.0.1:19092 answers\n")


def test_container_is_unhealthy_until_its_broker_is_ready(started: Started) -> None:
    container = started(command=["sh", "-c", "echo up; sleep 60"])
    container.wait_for("up")
    health = container.run(*container.image.health)
    assert health.returncode == 1
    assert "no broker is ready" in health.stderr


def test_invalid_configuration_ends_the_container_with_one_line(started: Started) -> None:
    container = started(environment={"KAFKA_LISTENERS": "OUT://:9092", "CLUSTER_ID": CLUSTER_ID})
    with pytest.raises(AssertionError, match=r"OUT is not in listener\.security\.protocol\.map; give OUT:PROTOCOL there"):
        container.wait_for("Kafka Server started")
    assert container.exit_code == 1


SECRETS = "etc/kafka/secrets"
JAAS = """KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="secret" user_admin="secret";
};
"""


def test_sasl_ssl_listener_of_the_image_is_configured_by_kafkas_variables(started: Started, tmp_path: Path) -> None:
    """A key store and passwords are in /etc/kafka/secrets, and KAFKA_OPTS names the login modules, as with apache/kafka."""
    authority = trustme.CA()
    environment = {
        "KAFKA_LISTENERS": "SASL_SSL://0.0.0.0:9093",
        "KAFKA_ADVERTISED_LISTENERS": "SASL_SSL://localhost:9093",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SASL_SSL:SASL_SSL",
        "KAFKA_SSL_KEYSTORE_FILENAME": "kafka.keystore.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "keystore_creds",
        "KAFKA_SSL_KEY_CREDENTIALS": "key_creds",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/kafka/secrets/jaas.conf",
    }
    waiting = f"while [ ! -e /{SECRETS}/jaas.conf ]; do sleep 0.1; done; exec /etc/kafka/docker/run"
    container = started(command=["sh", "-c", waiting], environment=environment, ports=(9093,))
    directory = container.image.at(SECRETS)
    directory.mkdir()
    pkcs12_store(directory / "kafka.keystore.p12", authority, authority.issue_cert("localhost"), "of the store")
    for name in ("keystore_creds", "key_creds"):
        (directory / name).write_text("of the store\n")
    container.put(f"{SECRETS}/jaas.conf", JAAS.encode(), mode=0o644)
    container.wait_for("Kafka Server started")
    health = container.run(*container.image.health)
    assert (health.returncode, health.stdout) == (0, "/tmp/ottla-ready.json.sock answers\n")
    settings = {
        "bootstrap.servers": f"localhost:{container.published[9093]}",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.certificates": authority.cert_pem.bytes().decode(),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "secret",
    }
    connecting = Connecting.parse(settings, prefix="")
    connection = BrokerConnection(
        ("localhost", container.published[9093]),
        SocketTransport(("localhost", container.published[9093]), 60, connecting),
        connecting=connecting,
    )
    assert connection.features
    connection.close()
    assert "of the store" not in container.text and "secret" not in container.text


def test_controller_and_broker_containers_form_one_cluster(tmp_path: Path) -> None:
    """Compose files with one container per node configure nodes in this way: they share CLUSTER_ID and the controller's address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        controller = f"127.0.0.1:{taken.getsockname()[1]}"
    cluster = {
        "CLUSTER_ID": CLUSTER_ID,
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"100@{controller}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    nodes = {
        100: ("controller", f"CONTROLLER://{controller}"),
        1: ("broker", "PLAINTEXT://127.0.0.1:0"),
        2: ("broker", "PLAINTEXT://127.0.0.1:0"),
    }
    with ExitStack() as running:
        ready = {}
        for node_id, (role, listeners) in nodes.items():
            own = {"KAFKA_NODE_ID": str(node_id), "KAFKA_PROCESS_ROLES": role, "KAFKA_LISTENERS": listeners}
            directory = {"KAFKA_LOG_DIRS": str(tmp_path / str(node_id)), "OTTLA_READY_FILE": str(tmp_path / f"{node_id}.json")}
            process = running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "ottla.container", "launch"],
                    env={**os.environ, **cluster, **own, **directory},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            )
            running.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline().endswith(f"is formatted for cluster {CLUSTER_ID}\n")
            ready[node_id] = json.loads(process.stdout.readline())
        for node_id in nodes:
            ready_file = str(tmp_path / f"{node_id}.json")
            command = [sys.executable, "-m", "ottla", "health", "--ready-file", ready_file]
            assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""
        with KafkaClient(ready[1]["bootstrap"], 20) as client:
            described = describe(client.brokers)
        assert described.cluster_id == CLUSTER_ID
        assert sorted(broker.node_id for broker in described.brokers) == [1, 2]
