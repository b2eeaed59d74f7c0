"""A standalone Spark cluster on loopback: a master and workers, as the installed pyspark brings them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.pipeline import quick_java
from tools.kafka import free_port

UP_S = 60


class Cluster:
    """One core and one executor a worker."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = f"spark://127.0.0.1:{free_port()}"
        self._workers = workers

    def __enter__(self) -> Self:
        try:
            self._start_all()
        except BaseException:
            self._kill()
            raise
        return self

    def _start_all(self) -> None:
        port = self.url.rpartition(":")[2]
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", port, "--webui-port", str(free_port()))
        self._wait_for("master", r"I have been elected leader")
        for number in range(self._workers):
            work = str(self._directory / f"work-{number}")
            ui = str(free_port())
            self._start(
                f"worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                self.url,
                "-c",
                "1",
                "-m",
                "1g",
                "-d",
                work,
                "--webui-port",
                ui,
            )
        for number in range(self._workers):
            self._wait_for(f"worker-{number}", "Successfully registered with master")

    def _start(self, name: str, *arguments: str) -> None:
        environment = {**os.environ, **quick_java.of_a_cluster(), "SPARK_LOCAL_IP": "127.0.0.1"}
        with (self._directory / f"{name}.log").open("wb") as log:
            command = [str(quick_java.SPARK_HOME / "bin" / "spark-class"), *arguments]
            self._processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True))

    def _wait_for(self, name: str, pattern: str) -> None:
        log = self._directory / f"{name}.log"
        until(lambda: re.search(pattern, log.read_text()) is not None, f"{name} is not up: {log}", UP_S)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._kill()

    def _kill(self) -> None:
        # Looked for while their workers still are their parents.
        orphans = self.executors()
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
        for pid in orphans:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def executors(self) -> list[int]:
        """Processes that run this cluster's tasks. Other tests have Spark's processes beside them."""
        return self._descendants("CoarseGrainedExecutorBackend")

    def python_workers(self) -> list[int]:
        """Those that a daemon of this cluster's Spark has forked."""
        daemons = set(self._descendants("pyspark.daemon"))
        return [pid for pid in daemons if _parent(pid) in daemons]

    def _descendants(self, word: str) -> list[int]:
        """Processes with this word in their command that a master or worker of the cluster has started, or one started by it."""
        own = {process.pid for process in self._processes}
        parents = _parents()
        return [pid for pid in parents if own & set(_ancestors(pid, parents)) and word in _command_line(pid)]


def until(holds: Callable[[], bool], otherwise: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def _parents() -> dict[int, int]:
    """Of each process on the machine, by its id."""
    return {pid: _parent(pid) for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())}


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


def _parent(pid: int) -> int:
    """0 for one that has ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
