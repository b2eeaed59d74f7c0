"""`serve --brokers` on the command line: its nodes are reported, measured and restarted, and keep their ports."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.heavy

PATIENCE_S = 60.0


def ottla(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class Served:
    """The processes of one ``ottla serve --brokers``."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self.directory = directory
        flags = ("--brokers", "2", "--listen", "127.0.0.1:0", "--data-dir", str(directory / "data"), *flags)
        self.log_path = directory / "log"
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ottla", "serve", "--metrics-port", "0", "--ready-file", str(directory / "ready"), *flags],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.ready = self.until("ready")

    def until(self, event: str) -> Any:
        assert self.process.stdout is not None
        while (said := json.loads(self.process.stdout.readline()))["event"] != event:
            pass
        return said

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.until("ended")

    def log(self, event: str) -> list[dict[str, Any]]:
        return [line for line in map(json.loads, self.log_path.read_text().splitlines()) if line.get("event") == event]

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.stop()


def metrics(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def cluster(served: Served) -> Any:
    shown = ottla("cluster", "--json", "--bootstrap", served.ready["bootstrap"].split(",")[0])
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


def test_killed_broker_is_fenced_reported_and_restarted(served: Served) -> None:
    host, _, port = served.ready["controller"]["at"].rpartition(":")
    assert cluster(served)["controller"] == {"id": 3000, "host": host, "port": int(port)}
    served.kill(served.ready["brokers"]["2"]["pid"])
    deadline_s = time.monotonic() + PATIENCE_S
    while not [b for b in cluster(served)["brokers"] if b["id"] == 2 and b["fenced"]]:
        assert time.monotonic() < deadline_s
    [fenced] = served.log("broker_fenced")
    assert (fenced["broker_id"], fenced["node"]) == (2, "controller") and "no heartbeat" in fenced["reason"]
    of_controller = metrics(served.ready["controller"]["metrics"])
    assert "kafka_controller_kafkacontroller_fencedbrokercount 1.0" in of_controller
    opened = re.search(
        r'kafka_server_socket_server_metrics_connection_creation_total\{listener="CONTROLLER"\} (\d+)', of_controller
    )
    assert opened is not None and int(opened[1]) >= len(served.ready["brokers"])
    again = ottla("cluster", "restart", "2", "--ready-file", str(served.directory / "ready"))
    assert (again.returncode, again.stdout.startswith("broker-2 runs as process")) == (0, True), again.stderr
    known = json.loads((served.directory / "ready").read_text())["brokers"]["2"]
    assert known["bootstrap"] == served.ready["brokers"]["2"]["bootstrap"]
    assert str(known["pid"]) in again.stdout
    while [b for b in cluster(served)["brokers"] if b["fenced"]]:
        assert time.monotonic() < deadline_s


def test_cluster_without_controller_is_unhealthy(served: Served) -> None:
    assert ottla("health", "--ready-file", str(served.directory / "ready")).returncode == 0
    served.kill(served.ready["controller"]["pid"])
    ill = ottla("health", "--ready-file", str(served.directory / "ready"), "--timeout-s", "2")
    assert (ill.returncode, "cannot reach the controller" in ill.stderr) == (1, True), ill.stderr
    shown = ottla("cluster", "--timeout-s", "2", "--bootstrap", served.ready["bootstrap"].split(",")[0])
    assert "none: the brokers cannot reach a controller" in shown.stdout, shown.stderr
    assert ottla("cluster", "restart", "controller", "--data-dir", str(served.directory / "data")).returncode == 0
    assert ottla("health", "--ready-file", str(served.directory / "ready"), "--wait").returncode == 0


def test_cluster_nodes_keep_their_ports_across_a_restart(tmp_path: Path) -> None:
    first = Served(tmp_path)
    first.stop()
    second = Served(tmp_path)
    second.stop()
    assert second.ready["bootstrap"] == first.ready["bootstrap"]
    assert second.ready["controller"]["at"] == first.ready["controller"]["at"]


def test_cluster_restart_command_without_a_cluster_is_refused(tmp_path: Path) -> None:
    refused = ottla("cluster", "restart", "2", "--data-dir", str(tmp_path))
    assert refused.returncode == 1 and "no cluster of `ottla serve --brokers` is running on" in refused.stderr
    refused = ottla("cluster", "restart", "2", "--ready-file", str(tmp_path / "none"))
    assert refused.returncode == 1 and "no broker is ready" in refused.stderr
    assert "give --brokers as well" in ottla("serve", "--restart-nodes").stderr
