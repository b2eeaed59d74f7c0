"""A standalone Spark cluster on the loopback interface: a master and workers of the installed pyspark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import quick_java
from tools.kafka import free_port

UP_S = 60


class Cluster:
    """A cluster whose workers have one core and one executor each."""

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
        # Kill executors first, while they are still children of the workers: only this cluster's executors may be killed.
        for pid in executors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)


def until(holds: Callable[[], bool], otherwise: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def executors() -> list[int]:
    """Return the process ids of this cluster's executors."""
    return _processes("CoarseGrainedExecutorBackend")


def python_workers() -> list[int]:
    """Return the process ids of Python workers, which a daemon of Spark forks."""
    daemons = set(_processes("pyspark.daemon"))
    return [pid for pid in daemons if _parent(pid) in daemons]


def _processes(word: str) -> list[int]:
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if word.encode() in (entry / "cmdline").read_bytes():
                    pids.append(int(entry.name))
    return [pid for pid in pids if _is_ours(pid)]


def _is_ours(pid: int) -> bool:
    """Whether the process is a descendant of this process."""
    while pid > 1 and pid != os.getpid():
        pid = _parent(pid)
    return pid == os.getpid()


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
