"""Each client commits a transaction and reads it in a group in each way to connect: by TLS with or without client certificates, and
by each mechanism of SASL with and without TLS.

The programs of the Python clients are the code blocks of docs/security-in-tests.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla import Broker
from tests.wire.secured_clients import ways
from tests.wire.secured_clients.programs import PROGRAMS, PYTHON_BLOCKS, go_program, java_program, run_documented
from tests.wire.secured_clients.ways import WAYS, Clients, Way

pytestmark = [pytest.mark.wire, pytest.mark.full]

NODE = PROGRAMS.parent.parent.parent / "examples" / "node"
TIMEOUT_S = 300


@pytest.fixture(scope="module")
def broker_with() -> Iterator[Callable[[str], Broker]]:
    """Return a function that starts the broker of a value of ``security``, or returns the running one."""
    running: dict[str, Broker] = {}
    with ExitStack() as stack:

        def broker(security: str) -> Broker:
            if security not in running:
                running[security] = stack.enter_context(ways.started(security))
            return running[security]

        yield broker


@pytest.fixture(params=WAYS, ids=str)
def clients(request: pytest.FixtureRequest, broker_with: Callable[[str], Broker]) -> Clients:
    way: Way = request.param
    broker = broker_with(way.security)
    ways.prepare(broker, way.security)
    return Clients(broker, way)


def printed(broker: Broker, *command: str, **environment: str) -> str:
    """Return the output of a program, after a check that the record is committed and read."""
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr + "\n".join(broker.logs[-20:])
    assert [record.value for record in broker.records("orders")] == [b"paid"]
    broker.wait_for(lambda: set(broker.lag("billing").values()) <= {0, 1})
    return done.stdout.strip()


@pytest.mark.parametrize("client", PYTHON_BLOCKS)
def test_documented_python_clients_commit_and_read_on_a_secured_broker(clients: Clients, client: str) -> None:
    run_documented(client, clients)
    assert [record.value for record in clients.broker.records("orders")] == [b"paid"]


@pytest.mark.java
def test_java_client_commits_and_reads_on_a_secured_broker(clients: Clients, tmp_path: Path) -> None:
    output = printed(clients.broker, *java_program(), str(clients.client_properties(tmp_path)))
    assert output.splitlines()[-1] == "paid"


@pytest.mark.parametrize("client", ["franz-go", "sarama"])
def test_go_client_commits_and_reads_on_a_secured_broker(clients: Clients, client: str) -> None:
    assert printed(clients.broker, *go_program(client), json.dumps(clients.client_config(client))) == "paid"


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


def test_kafkajs_commits_and_reads_on_a_secured_broker(clients: Clients, kafkajs: Path) -> None:
    config = json.dumps(clients.client_config("kafkajs"))
    assert printed(clients.broker, "node", str(PROGRAMS / "secured.js"), config, NODE_PATH=str(kafkajs)) == "paid"
