"""A standalone Spark cluster of processes on this machine: a master, and workers with one executor each.

compose.yaml starts the same classes in containers.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import pyspark

from ottla.client import ClientError

MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
START_S: Final = 120.0
POLL_S: Final = 0.1


class NotStarted(ClientError):
    """A process of the cluster did not start. The message contains the path of the log."""


def spark_class() -> str:
    return str(Path(pyspark.__file__).parent / "bin" / "spark-class")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def spawned(command: list[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process in a process group of its own, with its output in a file."""
    with log.open("ab") as output:
        return subprocess.Popen(command, env=own(environment), stdout=output, stderr=output, start_new_session=True)


def own(environment: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without settings of the shop, and with the given variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOP_") and name != "OTTLA_BOOTSTRAP"}
    return {**kept, **environment}


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class StandaloneCluster:
    """A master and its workers, which run inside a ``with`` block. Raises `NotStarted`."""

    def __init__(self, directory: Path, workers: int = 2, environment: Mapping[str, str] = {}) -> None:
        self._directory = directory
        self._workers = workers
        self._environment = {"SPARK_LOCAL_IP": "127.0.0.1", **environment}
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = f"spark://127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        where = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._run("master", [MASTER, *where, "--port", self.url.rpartition(":")[2]])
        self._wait("master", "I have been elected leader")
        names = [f"worker-{number}" for number in range(self._workers)]
        for name in names:
            work = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._directory / name)]
            self._run(name, [WORKER, *where, *work, self.url])
        for name in names:
            self._wait(name, "Successfully registered with master")

    def _run(self, name: str, arguments: list[str]) -> None:
        self._processes.append(spawned([spark_class(), *arguments], self._directory / f"{name}.log", self._environment))

    def _wait(self, name: str, pattern: str) -> None:
        log = self._directory / f"{name}.log"
        deadline = time.monotonic() + START_S
        while re.search(pattern, log.read_text()) is None:
            if self._processes[-1].poll() is not None or time.monotonic() > deadline:
                raise NotStarted(f"the {name} of Spark did not start; see {log}")
            time.sleep(POLL_S)

    def executors(self) -> list[int]:
        """Return the process ids of the executors of this cluster's workers."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True).stdout
        rows = [line.split(maxsplit=2) for line in listed.splitlines()]
        parents = {int(row[0]): int(row[1]) for row in rows}
        workers = {process.pid for process in self._processes}
        found = [int(row[0]) for row in rows if len(row) == 3 and EXECUTOR in row[2]]
        return [pid for pid in found if _ancestors(pid, parents) & workers]

    def __exit__(self, *_: object) -> None:
        # Kill executors before their workers, because executors may have process groups of their own, and are found by their
        # parents.
        for pid in self.executors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            kill(process)
        self._processes.clear()


def _ancestors(pid: int, parents: Mapping[int, int]) -> set[int]:
    found: set[int] = set()
    while pid in parents and pid not in found:
        found.add(pid)
        pid = parents[pid]
    return found
