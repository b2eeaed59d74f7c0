"""Starts the brokers under test, and reads the memory and processor time of their processes from the operating system."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ottla import Broker
from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.messages.metadata import MetadataRequest
from tools.kafka import SERVER_JVM, ApacheKafka


class Running(Protocol):
    """A broker process that can be started and stopped."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def pid(self) -> int | None: ...


def cpu_s(pid: int) -> float:
    """Return the processor time (user and system) of a process in seconds, with nanosecond resolution.

    The clock id is computed like in the C function `clock_getcpuclockid`, which Python does not have.
    """
    return time.clock_gettime((~pid << 3) | 2)


def process_tree() -> dict[int, list[str]]:
    """Return the fields of ``/proc/PID/stat`` after the name, for this process and all its descendants, by process id."""
    fields: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()

    def is_below(pid: int) -> bool:
        while pid in fields and pid != os.getpid():
            pid = int(fields[pid][1])
        return pid == os.getpid()

    return {pid: of_process for pid, of_process in fields.items() if is_below(pid)}


def memory_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def wait_for_metadata(bootstrap: str) -> None:
    """Wait until a Metadata response contains a broker, like a client."""
    host, _, port = bootstrap.rpartition(":")
    request = request_frame(3, 4, 1, "bench", MetadataRequest(topics=[], allow_auto_topic_creation=False))
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1) as connection:
            connection.sendall(request)
            reply = connection.makefile("rb")
            _, answer = decode_response_frame(3, 4, reply.read(int.from_bytes(reply.read(4), "big")))
            if answer.brokers:
                return
        time.sleep(0.01)


class Subject:
    """A broker under test, on a new directory. ``launch_s`` is the time from launch to the first response, in seconds.

    ``kind`` is ottla, kafka, or the path of a Python with another version of ottla.
    """

    def __init__(self, kind: str, root: Path, settings: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self._directory = Path(tempfile.mkdtemp(prefix=f"{Path(kind).name}-", dir=root))
        self._broker: Broker | ApacheKafka
        if kind != "kafka":
            self._broker = Broker(data_dir=self._directory, settings=dict(settings or {}))
            # Do not start the control API, because an older checkout may not have it.
            self._broker._has_control_api = False
            if kind == "ottla":
                # Use the package of this checkout even if another ottla is installed.
                self._broker._python_options = ()
            else:
                self._broker._python = kind
        else:
            self._broker = ApacheKafka(self._directory, settings=settings, jvm=SERVER_JVM)
            self._broker.prepare()
        # Sync the previous broker's data to the disk now, so that it does not slow down this broker's start.
        os.sync()
        before = time.monotonic()
        self._broker.start()
        wait_for_metadata(self._broker.bootstrap)
        self.launch_s = time.monotonic() - before

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    @property
    def pid(self) -> int:
        pid = self._broker.pid
        assert pid is not None
        return pid

    def stop(self) -> None:
        self._broker.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
