"""Behaviour that supervisors rely on when they start, monitor and stop a broker."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker
from ottla.cli.health_check import DESCRIBE_LOG_DIRS, NotReady, ask
from tests.support.waiting import logged
from tests.wire.test_cli import TIMEOUT_S, serving

pytestmark = pytest.mark.wire


def health(*arguments: str, **environment: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "ottla", "health", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env={**os.environ, **environment}
    )
    return done.returncode, (done.stdout + done.stderr).strip()


def test_health_command_uses_the_port_in_the_ready_file(tmp_path: Path) -> None:
    """The container's health check finds the broker by this port, whatever addresses the broker listens on and advertises."""
    ready_file = tmp_path / "ready.json"
    ready_file.write_text('{"event": "ready", "bootstrap": "left behind by a broker that was killed:1"}')
    elsewhere = ("--set", "advertised.listeners=PLAINTEXT://nowhere.invalid:1")
    arguments = ("--listen", "0.0.0.0:0", "--data-dir", str(tmp_path / "data"), *elsewhere)
    with serving(*arguments, environment={"OTTLA_READY_FILE": str(ready_file)}) as (process, ready):
        assert ready["bootstrap"] == "nowhere.invalid:1"
        port = str(ready["listening"]["PLAINTEXT"]).rpartition(":")[2]  # type: ignore[index]
        assert health(OTTLA_READY_FILE=str(ready_file)) == (0, f"127.0.0.1:{port} answers")
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    assert not ready_file.exists()
    assert health("--ready-file", str(ready_file)) == (1, f"ottla: {ready_file} does not exist: no broker is ready")


def started(broker: Broker) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in broker.logs if line.startswith("{")]
    return [line for line in lines if line["event"] == "broker_started"]


def test_broker_logs_at_its_start_whether_the_last_stop_was_clean() -> None:
    with Broker() as broker:
        broker.restart()
        broker.restart(kill=True)
        logged(broker, "broker_started", 3)
        assert [line["last_stop"] for line in started(broker)] == ["none", "clean", "crash"]


@pytest.mark.parametrize("flags", [(), ("--brokers", "2")], ids=["one", "several"])
def test_broker_logs_each_setting_without_effect_once(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """An unknown environment variable is logged with the most similar setting."""
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), "--set", "log.preallocate=true", *flags)
    environment = {"KAFKA_NUM_PARTITONS": "3", "KAFKA_BACKGROUND_THREADS": "3", "KAFKA_VERSION": "4.3.1"}
    with serving(*arguments, environment=environment) as (process, _):
        process.terminate()
        _, text = process.communicate(timeout=TIMEOUT_S)
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    warned = [(line["name"], line.get("did_you_mean")) for line in lines if line["event"] == "setting_ignored"]
    assert warned == [("background.threads", None), ("log.preallocate", None), ("KAFKA_NUM_PARTITONS", "KAFKA_NUM_PARTITIONS")]


@contextmanager
def pretending(error_code: int) -> Iterator[str]:
    """Run a server that reports its log directory with this error code in DescribeLogDirs. Yields the server's address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while head := connection.recv(4):
                    request = connection.recv(*struct.unpack(">i", head))
                    answer = struct.pack(">hihhh", 0, 1, DESCRIBE_LOG_DIRS, 1, 4)
                    if struct.unpack_from(">h", request) == (DESCRIBE_LOG_DIRS,):
                        path = b"/data"
                        answer = struct.pack(">iihh", 0, 1, error_code, len(path)) + path + struct.pack(">i", 0)
                    answer = request[4:8] + answer
                    connection.sendall(struct.pack(">i", len(answer)) + answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(TIMEOUT_S)


def test_health_command_fails_if_a_log_directory_failed(ottla: Broker) -> None:
    ask(ottla.bootstrap, 5)
    with pretending(0) as bootstrap:
        ask(bootstrap, 5)
    with pretending(56) as bootstrap, pytest.raises(NotReady, match=r"cannot use /data \(error 56\)"):
        ask(bootstrap, 5)


def test_health_command_fails_if_another_server_uses_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(NotReady, match="does not answer"):
            ask(f"127.0.0.1:{server.getsockname()[1]}", 5)
        thread.join(TIMEOUT_S)
