"""The parent of a cluster's processes, with processes that serve nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.heavy

PATIENCE_S = 60.0


class Program:
    def __init__(self, behaviour: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.brokers.cluster_program", behaviour],
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
        """Its exit code, and what all processes have written to stderr."""
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, errors


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
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


def test_the_controller_starts_first_and_stops_last(program: Program) -> None:
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


def test_a_broker_that_is_killed_is_started_again_when_asked_for(program: Program) -> None:
    ready = program.until("ready")
    program.say("1")
    assert program.next()["event"] == "refused", "it runs"
    program.say("seven")
    assert program.next()["event"] == "refused"
    os.kill(ready["brokers"]["1"]["pid"], signal.SIGKILL)
    ended = program.next()
    assert (ended["event"], ended["node"], ended["exit_code"]) == ("ended", 1, -signal.SIGKILL)
    program.say("1")
    started = program.next()
    assert (started["event"], started["node"]) == ("started", 1)
    assert started["pid"] != ready["brokers"]["1"]["pid"]


def test_a_paused_broker_is_stopped_as_well(program: Program) -> None:
    ready = program.until("ready")
    os.kill(ready["brokers"]["2"]["pid"], signal.SIGSTOP)
    program.process.send_signal(signal.SIGTERM)
    assert program.end()[0] == 0


def test_a_broker_that_does_not_start_ends_all() -> None:
    program = Program("refuse")
    # While its stdin is open, because the parent takes the end of commands for the end of the wish for a cluster.
    program.process.wait(PATIENCE_S)
    code, errors = program.end()
    assert code == 1
    assert "broker 2 does not like it" in errors
    assert "broker-2 did not start" in errors
    assert "stopped controller" in errors


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_the_parent(program: Program, number: int) -> None:
    children = pids(program.until("ready"))
    program.process.send_signal(number)
    program.end()
    deadline_s = time.monotonic() + PATIENCE_S
    while any(exists(pid) for pid in children):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_parent_whose_commands_end_stops(program: Program) -> None:
    program.until("ready")
    assert program.process.stdin is not None
    program.process.stdin.close()
    program.process.stdin = None
    assert program.end()[0] == 0
