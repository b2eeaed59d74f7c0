"""One Apache Kafka is shared by all xdist workers of a run and always ends with the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.support import oracle
from tests.support.raw_client import RawClient, create
from tests.support.shared_kafka import shared_kafka
from tools import keeping
from tools.kafka import START_TIMEOUT_S

ROOT = Path(__file__).parent.parent.parent
SLEEPER = [sys.executable, "-c", "import sys, time; print('up', flush=True); time.sleep(600)", "sleeper"]
RUN = """
import subprocess, sys, time
from tools import keeping
from tools.kafka import START_TIMEOUT_S

run = keeping.Run.begun()
sleeper = subprocess.Popen(keeping.guarded(sys.argv[1:]), stdout=subprocess.PIPE, text=True, start_new_session=True)
sleeper.stdout.readline()
print(run.directory, sleeper.pid, flush=True)
if sys.stdin.readline():
    run.end()
"""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> tuple[subprocess.Popen[str], Path, int]:
    """A process that has begun a test run, the directory of the run, and the pid of a process that must end with the run."""
    monkeypatch.delenv(keeping.VARIABLE)
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    directory, pid = process.stdout.readline().split()
    return process, Path(directory), int(pid)


def is_running(pid: int) -> bool:
    """Whether a process is running and not a zombie."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


@pytest.mark.smoke
@pytest.mark.parametrize("end", ["finished", "interrupted", "killed"])
def test_guarded_kafka_process_ends_with_its_test_run(begun: tuple[subprocess.Popen[str], Path, int], end: str) -> None:
    process, directory, pid = begun
    assert is_running(pid)
    with process:
        if end == "finished":
            process.communicate("\n")
        else:
            process.send_signal(signal.SIGINT if end == "interrupted" else signal.SIGKILL)
            process.wait(oracle.LIMIT_S)
    oracle.wait_for("the process of the run has ended", lambda: is_running(pid), lambda runs: not runs)
    oracle.wait_for("the directory of the run is removed", directory.exists, lambda exists: not exists)


@pytest.mark.smoke
def test_shared_kafka_guard_does_not_kill_a_process_with_a_reused_pid(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    with subprocess.Popen(SLEEPER, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"up\n"
        with monkeypatch.context() as patch:
            patch.setattr(keeping.os, "kill", lambda pid, number: killed.append(pid))
            keeping._kill(other.pid, "another last argument")
            assert killed == []
            keeping._kill(other.pid, SLEEPER[-1])
            assert killed == [other.pid]
        other.kill()


def test_process_inside_a_test_run_begins_no_second_run() -> None:
    assert os.environ[keeping.VARIABLE]
    assert keeping.Run.begun() is None


@pytest.mark.full
@pytest.mark.java
def test_processes_of_a_test_run_share_one_kafka_broker() -> None:
    """Two processes request the shared broker at the same time, as xdist workers do, and get the same broker."""
    ask = "from tests.support.shared_kafka import shared_kafka; print(shared_kafka().bootstrap)"
    with subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True, cwd=ROOT) as other:
        kafka = shared_kafka()
        bootstrap, _ = other.communicate(timeout=START_TIMEOUT_S)
    assert bootstrap.strip() == kafka.bootstrap
    with RawClient(kafka.bootstrap) as client:
        create(client, f"shared-{uuid.uuid4().hex[:8]}")
