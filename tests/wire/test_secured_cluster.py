"""``ottla serve --brokers`` whose processes connect to each other, and to the controller, only with TLS and SASL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.waiting import wait_until
from tests.wire.secured import LOGIN
from tests.wire.secured_nodes import ADMIN, ADMIN_PASSWORD, PASSWORD, SCRAM, USER, SecuredNodes

pytestmark = [pytest.mark.wire, pytest.mark.full]

PATIENCE_S = 60.0
PROTOCOLS = "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL"


@contextmanager
def served(directory: Path, nodes: SecuredNodes, mechanism: str) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Run a cluster. Yields the content of its ready file, and its log lines, which are complete when the block has ended."""
    tokens = f'{LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{ADMIN}";'
    scram = f'{LOGIN}.scram.ScramLoginModule required username="{ADMIN}" password="{ADMIN_PASSWORD}";'
    settings = nodes.settings() | {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "listener.security.protocol.map": PROTOCOLS,
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM},OAUTHBEARER",
        **{f"listener.name.{name}.{SCRAM.lower()}.sasl.jaas.config": scram for name in ("sasl_ssl", "controller")},
        **{f"listener.name.{name}.oauthbearer.sasl.jaas.config": tokens for name in ("sasl_ssl", "controller")},
        **{f"sasl.mechanism.{of}.protocol": mechanism for of in ("inter.broker", "controller")},
        "super.users": f"User:{ADMIN}",
    }
    (directory / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    (directory / "users").write_text(f"# users\n{USER}:{PASSWORD}\n{ADMIN}:{ADMIN_PASSWORD}\n")
    command = [sys.executable, "-m", "ottla", "serve", str(directory / "server.properties"), "--brokers", "2"]
    command += ["--data-dir", str(directory / "data"), "--users-file", str(directory / "users"), "--log-format", "json"]
    command += ["--ready-file", str(directory / "ready.json"), "--control-port", "0", "--owner-pid", str(os.getpid())]
    log: list[str] = []
    with (directory / "log").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, text=True)
        try:
            wait_until(lambda: (directory / "ready.json").exists() or process.poll() is not None)
            assert process.poll() is None, (directory / "log").read_text()
            yield json.loads((directory / "ready.json").read_text()), log
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            process.wait()
            log += (directory / "log").read_text().splitlines()


def _read(consumer: Consumer, values: list[bytes]) -> int:
    message = consumer.poll(0.5)
    if message is not None and message.error() is None:
        values.append(message.value())
    return len(values)


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM, "OAUTHBEARER"])
def test_nodes_of_a_secured_cluster_use_no_plaintext_listener(tmp_path: Path, mechanism: str) -> None:
    nodes = SecuredNodes(tmp_path)
    with served(tmp_path, nodes, mechanism) as (ready, log):
        assert {name for broker in ready["brokers"].values() for name in broker["listening"]} == {"SASL_SSL"}
        common = {"bootstrap.servers": ready["bootstrap"], "security.protocol": "SASL_SSL", "ssl.ca.location": nodes.trusted}
        admin = common | {"sasl.mechanism": "PLAIN", "sasl.username": ADMIN, "sasl.password": ADMIN_PASSWORD}
        user = common | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
        topic = NewTopic("orders", 2, replication_factor=2, config={"min.insync.replicas": "2"})
        administrator, alice = AdminClient(admin), AdminClient(user)
        administrator.create_topics([topic])["orders"].result(PATIENCE_S)
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            alice.create_topics([NewTopic("others", 1, 1)])["others"].result(PATIENCE_S)
        why = [sys.executable, "-m", "ottla", "why", f"User:{USER}", "--ready-file", str(tmp_path / "ready.json")]
        explained = subprocess.run(why, capture_output=True, text=True, check=True).stdout
        # The broker forwards the request, and only the controller authorizes it.
        assert "was denied CREATE on topic others" in explained, explained
        assert f"ottla acl add --principal User:{USER} --operation create --topic others" in explained
        producer = Producer({**admin, "transactional.id": "checkout"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for partition in range(2):
            producer.produce("orders", b"paid", partition=partition)
        producer.commit_transaction(PATIENCE_S)
        consumer = Consumer({**admin, "group.id": "billing", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        values: list[bytes] = []
        wait_until(lambda: _read(consumer, values) == 2)
        consumer.close()
    assert not [line for line in log if json.loads(line)["level"] == "error"]
