"""A broker or controller of ottla in its own process, with the interface of `tools.kafka.ApacheKafka`.

With this interface a cluster can have nodes of ottla and Apache Kafka: `tools.kafka_cluster.ApacheKafkas` with ``ottla_nodes``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from ottla.broker.loop.env import random_uuid
from ottla.brokers.plan import CLIENT_LISTENER, CONTROLLER_LISTENER, format_directory
from ottla.client.errors import ClientError
from ottla.control.faults.remote_faults import RemoteFaults
from ottla.control.remote import ControlError, Remote
from ottla.protocol.uuids import uuid_text
from ottla.storage.real_filesystem import RealFilesystem
from ottla.testing.cluster_queries import Questions
from tools.kafka import STOP_TIMEOUT_S, StartFailed, free_port

START_TIMEOUT_S = 120.0
"""Timeout of a node's start, in seconds. A broker may wait for a controller that starts at the same time."""
PAUSE_S = 0.02
NOT_INHERITED = ("KAFKA_", "OTTLA_", "PYTEST_")


class OttlaNode:
    """A node of a cluster. For a broker ``under`` is the cluster's id, and the controller as ``ID@HOST:PORT``. For a controller it
    is None.

    ``listeners`` are a broker's ports by security protocol, besides PLAINTEXT; ``settings`` must have the rest of their config.
    ``users`` are the passwords of users that a controller creates (SCRAM).

    ``data_dir`` contains the log file (``broker.log``, JSON lines), the ready file of the newest process, and the log directory.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        node_id: int,
        settings: Mapping[str, str],
        under: tuple[str, str] | None = None,
        listeners: Mapping[str, int] | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.log_dir = data_dir / "logs"
        self.log_file = data_dir / "broker.log"
        self.exit_code: int | None = None
        """The exit code of the last process that was stopped."""
        self.cluster_id = under[0] if under is not None else uuid_text(random_uuid())
        self._node_id = node_id
        self._is_controller = under is None
        self._users = dict(users or {})
        self._port = free_port()
        self._ready_file = data_dir / "ready.json"
        own = {"node.id": str(node_id), "log.dirs": str(self.log_dir), "controller.listener.names": CONTROLLER_LISTENER}
        if under is None:
            own |= {
                "process.roles": "controller",
                "listeners": f"{CONTROLLER_LISTENER}://{self.bootstrap}",
                "controller.quorum.voters": f"{node_id}@{self.bootstrap}",
            }
        else:
            further = "".join(f",{protocol}://127.0.0.1:{port}" for protocol, port in (listeners or {}).items())
            own |= {
                "process.roles": "broker",
                "listeners": f"{CLIENT_LISTENER}://{self.bootstrap}{further}",
                "inter.broker.listener.name": settings.get("inter.broker.listener.name", CLIENT_LISTENER),
                "controller.quorum.voters": under[1],
                "ottla.control.port": "0",
            }
        self.settings = {**settings, **own}
        """The settings of the next start."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def controller(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def logs(self) -> list[str]:
        return self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []

    def faults(self) -> RemoteFaults:
        """Return the node's faults, which end with the process. Adding a fault raises `ControlError` if the node is not running."""
        return RemoteFaults(self._remote)

    def _remote(self) -> Remote:
        try:
            control: dict[str, Any] = json.loads(self._ready_file.read_text())["control"]
        except (OSError, ValueError, KeyError) as error:
            raise ControlError(f"node {self._node_id} is not running; start it first") from error
        return Remote(control["url"], control["token"])

    # start and stop

    def format(self) -> None:
        """Format the log directory for this node and cluster, like kafka-storage."""
        self.log_dir.mkdir(parents=True, exist_ok=True)
        format_directory(RealFilesystem(), str(self.log_dir), self._node_id, random_uuid, self.cluster_id)

    def start(self) -> Self:
        """Start, and wait until the broker is unfenced. Raises `StartFailed`."""
        self.launch()
        self.wait_until_up()
        return self

    def launch(self) -> None:
        """Format the directory if necessary and start without waiting; see `wait_until_up`."""
        self.format()
        self._ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-P", "-m", "ottla", "serve", "--log-format", "json", "--owner-pid", str(os.getpid())]
        command += ["--ready-file", str(self._ready_file)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        for user, password in self._users.items():
            command += ["--user", f"{user}:{password}"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(NOT_INHERITED)}
        with self.log_file.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output, env=environment, start_new_session=True
            )

    def wait_until_up(self) -> None:
        """Wait until the node is ready and the controller has unfenced the node. Raises `StartFailed`."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if self._process is None or self._process.poll() is not None:
                break
            if self._ready_file.exists() and (self._is_controller or self._is_in_service()):
                return
            time.sleep(PAUSE_S)
        end = "\n".join(self.logs[-20:])
        self.kill()
        raise StartFailed(f"node {self._node_id} of ottla did not start within {START_TIMEOUT_S:g} s:\n{end}")

    def _is_in_service(self) -> bool:
        with suppress(ClientError):
            return self._node_id in Questions(lambda: self.bootstrap).in_service()
        return False

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self.exit_code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self.exit_code = -signal.SIGKILL
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
