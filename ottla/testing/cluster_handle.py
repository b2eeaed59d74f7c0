"""`Cluster`: several brokers and their controller, for tests of broker failures."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ottla.addresses import joined_address
from ottla.control.argument_types import checks_argument_types
from ottla.control.faults.remote_faults import RemoteFault, RemoteFaults
from ottla.control.remote import ControlError, Remote
from ottla.testing import operations
from ottla.testing.async_operations import AsyncOperations
from ottla.testing.broker_process import (
    SAFE_PATH,
    ServedProcess,
    data_directory,
    is_suspended,
    new_directory,
    remove_directory,
    setting_arguments,
)
from ottla.testing.cluster_queries import Questions
from ottla.testing.security import client_access
from ottla.testing.security.acls import Acl, BrokerAcls
from ottla.testing.security.broker_security import BrokerSecurity

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
EXIT_GRACE_S = 1.0
"""Timeout, in seconds, for the exit of a process that has closed its stdout."""
CHANGE_TIMEOUT_S = 30.0
CONTROLLER = 3000
"""The node id of the controller, which can be paused, killed and restarted like a broker."""


class ClusterFailed(Exception):
    """The cluster or one of its brokers did not start or stop. The message ends with the last log lines."""


@checks_argument_types
class Cluster:
    """A cluster of brokers with the ids 1, 2, 3 and so on, and their controller, each in its own process.

    ``brokers`` is the number of brokers, ``settings`` are Kafka's ``server.properties`` keys for all brokers, and ``features`` are
    feature levels. ``broker.rack`` may list a rack for each broker, as in ``a,b,c``. Without ``data_dir`` the cluster has a
    temporary directory, which is removed at the end. Brokers keep their ports over restarts. All processes end when the process
    that started the cluster ends, even by SIGKILL. ``security``, ``users`` and ``acls`` are those of `ottla.Broker`; the brokers
    connect to each other without them, on 127.0.0.1.
    """

    _module = "ottla"
    """The module that the processes run. A test may use a module that adds faults."""
    _python_options: tuple[str, ...] = SAFE_PATH
    """Options of the interpreter. A test that starts a module of the working directory omits `SAFE_PATH`."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        settings: Mapping[str, str | int | bool] | None = None,
        features: Mapping[str, int] | None = None,
        security: str | None = None,
        users: Mapping[str, str] | Iterable[str] | None = None,
        acls: Sequence[Acl] | None = None,
    ) -> None:
        # `start` creates the directory, so that a `Cluster` that is never started leaves no directory.
        self._temporary = new_directory()
        self._data_dir = data_directory(data_dir, self._temporary / "data")
        weakref.finalize(self, remove_directory, self._temporary, os.getpid())
        self._count = brokers
        self._host = host
        self._settings = dict(settings or {})
        self._features = dict(features or {})
        self._parent = ServedProcess(self._happened)
        self._changed = threading.Condition()
        self._pids: dict[int, int] = {}
        self._control_apis: dict[int, Remote] = {}
        self._partitioned: dict[int, RemoteFault] = {}
        # Running nodes, as reported by the parent process.
        self._running: set[int] = set()
        # Number of exits by node, including failed starts.
        self._ends: Counter[int] = Counter()
        self._paused: set[int] = set()
        self._ready: dict[str, Any] = {}
        self._has_ended = threading.Event()
        self._security = BrokerSecurity(security, users, acls, directory=self._temporary, host=host)
        self._questions = Questions(self._answering, self._security.connecting)
        self.acls = BrokerAcls(self._questions.cluster)
        """The ACLs of the running cluster."""
        self._is_prepared = False

    def __repr__(self) -> str:
        running = sorted(node for node in self._running if node != CONTROLLER)
        return f"<ottla.Cluster {self.bootstrap or 'not running'}, brokers {running} run, data in {self.data_dir}>"

    @property
    def data_dir(self) -> Path:
        return self._data_dir

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, even of stopped brokers, for a client's ``bootstrap.servers``."""
        return str(self._ready.get("bootstrap", ""))

    @property
    def brokers(self) -> list[int]:
        """The ids of all brokers."""
        return list(range(1, self._count + 1))

    @property
    def cluster_id(self) -> str:
        return str(self._ready["cluster_id"])

    @property
    def quorum_voters(self) -> str:
        """The value of ``controller.quorum.voters`` for further brokers of ottla or Apache Kafka."""
        return f"{CONTROLLER}@{self._ready['controller']['at']}"

    @property
    def is_running(self) -> bool:
        return self._parent.is_running

    @property
    def is_copy(self) -> bool:
        """Whether this is a copy of the `Cluster` in a forked process. Only the process that created the `Cluster` can start and
        stop brokers.

        A copy can send requests, and add faults to brokers that ran at the fork. `close` does nothing in a copy.
        """
        return self._parent.is_copy

    @property
    def logs(self) -> list[str]:
        """The newest log lines of all processes, newest last. The field ``node`` of a line names the process."""
        return self._parent.logs

    def _answering(self) -> str:
        """Return the addresses of the brokers that are running and not paused; all addresses if every broker is stopped or
        paused."""
        able = [broker for broker in self.brokers if broker in self._running and broker not in self._paused]
        return ",".join(self.address(broker) for broker in able) or self.bootstrap

    def address(self, broker: int) -> str:
        """Return the ``host:port`` of one broker."""
        return str(self._ready["brokers"][str(broker)]["bootstrap"])

    def faults(self, broker: int) -> RemoteFaults:
        """Return the faults of one broker, such as errors, delays, lost responses and crashes: `docs/faults.md`.

        Faults end with the broker's process. Adding a fault raises `ControlError` if the broker is not running.
        """
        return RemoteFaults(lambda: self._control_api(broker))

    def _control_api(self, broker: int) -> Remote:
        if broker not in self._running or broker not in self._control_apis:
            raise ControlError(f"broker {broker} is not running; start it first")
        if is_suspended(self._pids[broker]):
            raise ControlError(f"broker {broker} is paused; resume it first")
        return self._control_apis[broker]

    def pid(self, broker: int) -> int:
        """Return the process id of a broker, or of the controller (`CONTROLLER`)."""
        return self._pids[broker]

    # start and stop

    def start(self) -> Self:
        """Start all processes, and wait until all brokers listen. Raises `ClusterFailed`."""
        if self.is_running:
            return self
        self._check_controls()
        self._temporary.mkdir(mode=0o700, exist_ok=True)
        command = [sys.executable, *self._python_options, "-m", self._module, "serve", "--brokers", str(self._count)]
        command += self._security.prepare(self._settings, has_users=False)
        command += self._security.listener(joined_address((self._host, 0)))
        command += ["--data-dir", str(self._data_dir), "--log-format", "json", "--takes-commands", "--control-port", "0"]
        command += ["--owner-pid", str(os.getpid()), "--owned-directory", str(self._temporary)]
        command += setting_arguments(self._settings, self._features)
        self._ready = {}
        self._paused.clear()
        self._has_ended.clear()
        try:
            self._parent.start(command, self._end)
            self._await(lambda: bool(self._ready) or self._has_ended.is_set(), START_TIMEOUT_S)
            if not self._ready:
                self._parent.kill(STOP_TIMEOUT_S, EXIT_GRACE_S)
                raise self._failed("the cluster did not start")
            if not self._is_prepared:
                self._security.add_users(self._questions.cluster)
                self._security.add_acls(self.acls)
                self._is_prepared = True
        except BaseException:
            self._parent.kill(STOP_TIMEOUT_S)
            raise
        return self

    def stop(self) -> int:
        """Stop all processes, the controller last, and return the exit code. Raises `ClusterFailed`."""
        self._check_controls()
        code = self._parent.stop(STOP_TIMEOUT_S)
        if code is None:
            self._parent.kill(STOP_TIMEOUT_S)
            raise self._failed("the cluster did not stop")
        self._running.clear()
        return code

    def close(self) -> None:
        """Stop the cluster and, if the directory is temporary, remove it. Does nothing in a forked process."""
        if self.is_copy:
            return
        try:
            self.stop()
        finally:
            remove_directory(self._temporary, os.getpid())

    # failures of single brokers

    def kill(self, broker: int) -> None:
        """Crash a broker with SIGKILL, and wait for its exit."""
        self._signal(broker, signal.SIGKILL)
        self._await(lambda: broker not in self._running, CHANGE_TIMEOUT_S)
        self._paused.discard(broker)

    def shut_down(self, broker: int) -> None:
        """Shut down a broker with SIGTERM, and wait for its exit. The broker first moves its leaderships to other brokers."""
        self._signal(broker, signal.SIGTERM)
        self._await(lambda: broker not in self._running, CHANGE_TIMEOUT_S)

    def pause(self, broker: int) -> None:
        """Pause a broker with SIGSTOP: connections stay open, but the broker sends nothing until `resume`."""
        self._signal(broker, signal.SIGSTOP)
        self._paused.add(broker)

    def resume(self, broker: int) -> None:
        self._signal(broker, signal.SIGCONT)
        self._paused.discard(broker)

    def partition(self, broker: int) -> None:
        """Close the connection at each request of another broker to this broker, until `heal`: a network partition in one
        direction.

        Requests of this broker to other brokers, heartbeats to the controller, and requests of clients arrive.
        """
        self._check_controls()
        if broker not in self._partitioned:
            self._partitioned[broker] = self.faults(broker).add(client_id="broker-*", cut="before", times=None)

    def restart(self, broker: int, *, kill: bool = False) -> None:
        """Stop or kill a running broker, start it again, and wait until it listens. Raises `ClusterFailed` if the broker exits."""
        self._check_controls()
        if broker in self._running:
            if kill:
                self.kill(broker)
            else:
                self.shut_down(broker)
        ends = self._ends[broker]
        self._parent.command(str(broker))
        self._await(lambda: broker in self._running or self._ends[broker] > ends, START_TIMEOUT_S)
        if broker not in self._running:
            raise self._failed(f"broker {broker} did not start")

    def heal(self) -> None:
        """Resume paused nodes, end network partitions, restart ended nodes, and wait until all brokers are unfenced."""
        self._resume_all()
        for node in sorted(self._partitioned):
            partition = self._partitioned.pop(node)
            # A broker that has just ended has no faults to remove.
            with suppress(ControlError):
                partition.remove()
        for node in (CONTROLLER, *self.brokers):
            if node not in self._running:
                self.restart(node)
        self.wait_for(lambda: self.in_service() == self.brokers, CHANGE_TIMEOUT_S)

    def remove_faults(self) -> None:
        """Resume paused nodes, and remove the faults of all running brokers, including network partitions."""
        self._resume_all()
        self._partitioned.clear()
        for broker in self.brokers:
            # A broker that was just killed has no faults to remove.
            with suppress(ControlError):
                self.faults(broker).clear()

    def _resume_all(self) -> None:
        self._check_controls()
        # Resume all nodes, because a test may have sent SIGSTOP itself.
        for node in sorted(self._running):
            self.resume(node)

    def in_service(self) -> list[int]:
        """Return the ids of the brokers in the Metadata response. Raises `ottla.client.ClientError`."""
        return self._questions.in_service()

    def _check_controls(self) -> None:
        if self.is_copy:
            raise ClusterFailed(self._parent.copy_error("the cluster"))

    def _signal(self, broker: int, number: int) -> None:
        self._check_controls()
        if broker not in self._running:
            raise ValueError(f"broker {broker} is not running")
        with suppress(ProcessLookupError):
            os.kill(self._pids[broker], number)

    # leaders and coordinators

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """Return the id of a partition's leader; None if the partition has no leader. This and the following methods raise
        `ottla.client.ClientError`."""
        return self._questions.leader(topic, partition)

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ids of the brokers with the in-sync replicas of a partition."""
        return self._questions.in_sync(topic, partition)

    def coordinator(self, *, transactional_id: str | None = None, group: str | None = None) -> int:
        """Return the id of the broker that coordinates a transactional id or a group."""
        return self._questions.coordinator(transactional_id=transactional_id, group=group)

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make an in-sync replica the leader of a partition, and wait for the change."""
        self._questions.move_leader(topic, partition, to)
        self.wait_for(lambda: self.leader(topic, partition) == to, CHANGE_TIMEOUT_S)

    # clients and requests, as in `ottla.Broker`

    client_config = client_access.client_config
    client_properties = client_access.client_properties
    delegation_token = client_access.delegation_token

    # requests: see `ottla.testing.operations`

    produce = operations.produce
    transaction = operations.transaction
    consume = operations.consume
    expect = operations.expect
    create_topic = operations.create_topic
    delete_topic = operations.delete_topic
    delete_group = operations.delete_group
    alter_config = operations.alter_config
    commit_offsets = operations.commit_offsets
    records = operations.records
    describe_transaction = operations.describe_transaction
    lag = operations.lag
    wait_for = operations.wait_for

    @property
    def aio(self) -> AsyncOperations:
        """The methods that send requests to a broker, as coroutines."""
        return AsyncOperations(self)

    # events of the parent process

    def _happened(self, event: dict[str, Any]) -> None:
        with self._changed:
            match event.get("event"):
                case "started":
                    self._pids[event["node"]] = event["pid"]
                    if "control" in event:
                        self._control_apis[event["node"]] = Remote(event["control"]["url"], event["control"]["token"])
                    self._running.add(event["node"])
                case "ended":
                    self._ends[event["node"]] += 1
                    self._running.discard(event["node"])
                case "ready":
                    self._ready = event
            self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self._has_ended.set()
            self._changed.notify_all()

    def _await(self, condition: Callable[[], bool], timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: condition() or self._has_ended.is_set(), timeout_s):
                raise self._failed(f"a process of the cluster did not start or end within {timeout_s:g} s")

    def _failed(self, reason: str) -> ClusterFailed:
        return ClusterFailed(f"{reason}:\n{self._parent.last_lines(30)}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.close)
