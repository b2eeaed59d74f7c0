"""Clients in Java, Go and Node commit a transaction and read it in a group over SASL_SSL with SCRAM and over mTLS.

The Python clients are the code blocks of docs/security-in-tests.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Acl, Broker
from tests.pages.blocks import block
from tests.wire import secured_clients
from tools import go, java_programs, kafka
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full]

PROGRAMS = Path(secured_clients.__file__).parent
NODE = PROGRAMS.parent.parent.parent / "examples" / "node"
TIMEOUT_S = 300
ACLS = [
    Acl("alice", "all", topic="orders"),
    Acl("alice", "read", group="billing"),
    Acl("alice", "write", transactional_id="checkout-1"),
    # kafkajs needs this permission for InitProducerId. Kafka has not required it since version 2.8.
    Acl("alice", "idempotent-write", cluster=True),
]


@pytest.fixture(scope="module", params=["SASL_SSL", "mTLS"])
def shared(request: pytest.FixtureRequest) -> Iterator[Broker]:
    users = ["alice"] if request.param == "mTLS" else {"alice": "secret"}
    with Broker(security=request.param, users=users, acls=ACLS) as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Broker:
    shared.reset()
    shared.create_topic("orders", 1)
    return shared


def printed(broker: Broker, *command: str, **environment: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr + "\n".join(broker.logs[-20:])
    assert [record.value for record in broker.records("orders")] == [b"paid"]
    broker.wait_for(lambda: set(broker.lag("billing").values()) <= {0, 1})
    return done.stdout.strip()


@pytest.mark.parametrize(
    "first_line",
    ["from confluent_kafka import Consumer, Producer", "from kafka import KafkaConsumer, KafkaProducer", "import asyncio"],
)
def test_documented_python_clients_commit_and_read_on_a_secured_broker(broker: Broker, first_line: str) -> None:
    exec(block(("docs/security-in-tests.md", first_line)).text, {"broker": broker, "__name__": "block"})
    assert [record.value for record in broker.records("orders")] == [b"paid"]


@pytest.mark.java
def test_java_client_commits_and_reads_on_a_secured_broker(broker: Broker) -> None:
    try:
        class_path = os.pathsep.join(map(str, java_programs.expanded(kafka.jars("clients"))))
        command = java_programs.command(PROGRAMS / "Secured.java", class_path, "-XX:TieredStopAtLevel=1")
    except Unavailable as missing:
        pytest.skip(str(missing))
    assert printed(broker, *command, str(broker.client_properties("alice"))).splitlines()[-1] == "paid"


@pytest.mark.parametrize("client", ["franz-go", "sarama"])
def test_go_client_commits_and_reads_on_a_secured_broker(broker: Broker, client: str) -> None:
    try:
        program = go.built(PROGRAMS / client.removesuffix("-go"))
    except Unavailable as missing:
        pytest.skip(str(missing))
    assert printed(broker, str(program), json.dumps(broker.client_config(client, "alice"))) == "paid"


@pytest.fixture(scope="module")
def kafkajs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the modules of examples/node."""
    npm, project = shutil.which("npm"), tmp_path_factory.mktemp("node")
    if npm is None or shutil.which("node") is None:
        pytest.skip("no node and npm on the PATH")
    shutil.copy(NODE / "package.json", project)
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    fetched = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if fetched.returncode:
        pytest.skip(f"npm install failed: {fetched.stderr[-500:]}")
    return project / "node_modules"


def test_kafkajs_commits_and_reads_on_a_secured_broker(broker: Broker, kafkajs: Path) -> None:
    config = json.dumps(broker.client_config("kafkajs", "alice"))
    assert printed(broker, "node", str(PROGRAMS / "secured.js"), config, NODE_PATH=str(kafkajs)) == "paid"
