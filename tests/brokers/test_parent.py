"""The parent process of a cluster, tested with node processes that serve no requests (cluster_program.py)."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.brokers.control_socket import MAX_CLIENTS, SOCKET_FILE, command

pytestmark = pytest.mark.heavy

PATIENCE_S = 60.0


class Program:
    def __init__(self, data_dir: Path, behaviour: str = "", *flags: str) -> None:
        self.data_dir = data_dir
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.brokers.cluster_program", behaviour, str(data_dir), *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def next(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def until(self, event: str) -> Any:
        while (said := self.next())["event"] != event:
            pass
        return said

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        """Wait for the end of the parent. Returns its exit code and the stderr output of all processes."""
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, errors


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    yield from running(Program(tmp_path))


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Program]:
    """A parent that reads no commands from stdin, as when a user starts it in a terminal."""
    yield from running(Program(tmp_path, "", "alone"))


def running(program: Program) -> Iterator[Program]:
    yield program
    if program.process.poll() is None:
        program.process.terminate()
        program.end()


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids(ready: Any) -> list[int]:
    return [ready["controller"]["pid"], *(broker["pid"] for broker in ready["brokers"].values())]


def test_controller_process_of_a_cluster_starts_first_and_stops_last(program: Program) -> None:
    started = [program.next() for _ in range(3)]
    assert [said["event"] for said in started] == ["started"] * 3
    assert started[0]["name"] == "controller"
    ready = program.next()
    assert (ready["event"], ready["bootstrap"]) == ("ready", "b:1,b:2")
    program.process.send_signal(signal.SIGTERM)
    code, errors = program.end()
    assert code == 0
    assert errors.splitlines()[-1] == "stopped controller"
    assert sorted(errors.splitlines()[:-1]) == ["stopped broker-1", "stopped broker-2"]


def test_node_id_on_stdin_of_the_cluster_process_restarts_a_killed_broker(program: Program) -> None:
    ready = program.until("ready")
    program.say("1")
    assert program.next()["event"] == "refused", "a node that is running is not restarted"
    program.say("seven")
    assert program.next()["event"] == "refused"
    os.kill(ready["brokers"]["1"]["pid"], signal.SIGKILL)
    ended = program.next()
    assert (ended["event"], ended["node"], ended["exit_code"]) == ("ended", 1, -signal.SIGKILL)
    program.say("1")
    started = program.next()
    assert (started["event"], started["node"]) == ("started", 1)
    assert started["pid"] != ready["brokers"]["1"]["pid"]


def test_sigterm_to_the_cluster_process_stops_a_paused_broker(program: Program) -> None:
    ready = program.until("ready")
    os.kill(ready["brokers"]["2"]["pid"], signal.SIGSTOP)
    program.process.send_signal(signal.SIGTERM)
    assert program.end()[0] == 0


def test_failed_broker_start_stops_the_cluster(tmp_path: Path) -> None:
    program = Program(tmp_path, "refuse")
    # Wait before stdin is closed, because the parent stops the cluster when its stdin ends.
    program.process.wait(PATIENCE_S)
    code, errors = program.end()
    assert code == 1
    assert "broker 2 does not like it" in errors
    assert "broker-2 did not start" in errors
    assert "stopped controller" in errors


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_broker_processes_end_with_the_cluster_process(program: Program, number: int) -> None:
    children = pids(program.until("ready"))
    program.process.send_signal(number)
    program.end()
    deadline_s = time.monotonic() + PATIENCE_S
    while any(exists(pid) for pid in children):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_cluster_process_stops_when_its_stdin_is_closed(program: Program) -> None:
    program.until("ready")
    assert program.process.stdin is not None
    program.process.stdin.close()
    program.process.stdin = None
    assert program.end()[0] == 0


def kill_all(ready: Any) -> None:
    for pid in pids(ready):
        os.kill(pid, signal.SIGKILL)


def test_cluster_process_fails_when_all_nodes_ended(alone: Program) -> None:
    kill_all(alone.until("ready"))
    code, errors = alone.end()
    assert code == 1
    assert "all nodes of the cluster have ended" in errors


def test_cluster_nodes_restart_automatically_when_configured(tmp_path: Path) -> None:
    for program in running(Program(tmp_path, "", "alone", "restart")):
        ready = program.until("ready")
        kill_all(ready)
        said = [program.next() for _ in range(6)]
        assert [s["starts_again_in_s"] for s in said if s["event"] == "ended"] == [1, 1, 1]
        started = {s["name"]: s["pid"] for s in said if s["event"] == "started"}
        assert set(started) == {"controller", "broker-1", "broker-2"}
        assert not set(started.values()) & set(pids(ready))


def test_restart_command_on_the_cluster_socket_restarts_a_killed_or_running_node(alone: Program) -> None:
    ready = alone.until("ready")
    os.kill(ready["brokers"]["2"]["pid"], signal.SIGKILL)
    alone.until("ended")
    answer = command(str(alone.data_dir), "restart 2", PATIENCE_S)
    assert (answer["event"], answer["name"]) == ("started", "broker-2")
    running_one = command(str(alone.data_dir), "restart broker-1", PATIENCE_S)
    assert running_one["event"] == "started" and running_one["pid"] != ready["brokers"]["1"]["pid"]
    assert command(str(alone.data_dir), "restart controller", PATIENCE_S)["event"] == "started"


def test_response_to_a_restart_command_has_the_reason_of_a_failed_start(tmp_path: Path) -> None:
    for program in running(Program(tmp_path, "fail-later", "alone")):
        ready = program.until("ready")
        refused = command(str(tmp_path), "restart 2", PATIENCE_S)
        assert refused == {"event": "refused", "reason": "broker-2 did not start: broker 2 does not like it"}
        assert not exists(ready["brokers"]["2"]["pid"])
        assert command(str(tmp_path), "restart 1", PATIENCE_S)["event"] == "started"


def test_broker_is_not_restarted_without_a_controller(alone: Program) -> None:
    ready = alone.until("ready")
    for pid in (ready["controller"]["pid"], ready["brokers"]["2"]["pid"]):
        os.kill(pid, signal.SIGKILL)
        alone.until("ended")
    for node, what in (("1", "is not restarted"), ("2", "cannot start")):
        refused = command(str(alone.data_dir), f"restart {node}", PATIENCE_S)
        reason = "the controller is not running; run 'ottla cluster restart controller' first"
        assert refused == {"event": "refused", "reason": f"broker-{node} {what}: {reason}"}
    assert exists(ready["brokers"]["1"]["pid"]), "a broker that runs is not stopped"
    assert command(str(alone.data_dir), "restart controller", PATIENCE_S)["event"] == "started"
    assert command(str(alone.data_dir), "restart 2", PATIENCE_S)["event"] == "started"


def test_broker_restarts_while_the_restart_of_the_controller_is_scheduled(tmp_path: Path) -> None:
    for program in running(Program(tmp_path, "", "alone", "restart")):
        ready = program.until("ready")
        os.kill(ready["controller"]["pid"], signal.SIGKILL)
        program.until("ended")
        assert command(str(tmp_path), "restart 1", PATIENCE_S)["event"] == "started"


@pytest.mark.parametrize("line", ["restart 7", "restart", "stop 1", "\xff"])
def test_unknown_command_on_the_cluster_socket_is_refused(alone: Program, line: str) -> None:
    alone.until("ready")
    refused = command(str(alone.data_dir), line, PATIENCE_S)
    assert refused["event"] == "refused" and "its nodes are controller, broker-1, broker-2" in refused["reason"]


def test_cluster_socket_has_mode_600_and_limits_line_length_and_clients(alone: Program) -> None:
    alone.until("ready")
    assert stat.S_IMODE((alone.data_dir / SOCKET_FILE).stat().st_mode) == 0o600
    with pytest.raises(ConnectionError):
        command(str(alone.data_dir), "x" * 1_000, PATIENCE_S)
    silent = [socket.socket(socket.AF_UNIX) for _ in range(2 * MAX_CLIENTS)]
    try:
        for client in silent:
            client.connect(str(alone.data_dir / SOCKET_FILE))
        assert command(str(alone.data_dir), "restart 7", PATIENCE_S)["event"] == "refused"
    finally:
        for client in silent:
            client.close()


def test_cluster_socket_is_removed_when_the_cluster_stops(alone: Program) -> None:
    alone.until("ready")
    alone.process.terminate()
    assert alone.end()[0] == 0
    assert not (alone.data_dir / SOCKET_FILE).exists()
