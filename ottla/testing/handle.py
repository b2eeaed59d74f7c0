"""`Broker`: starts, stops, kills and restarts a broker's process for tests, and resets its data."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from ottla.addresses import joined_address, split_address
from ottla.control.argument_types import checks_argument_types
from ottla.control.faults.remote_faults import RemoteFaults
from ottla.control.remote import ControlError, Remote
from ottla.testing import operations
from ottla.testing.async_operations import AsyncOperations
from ottla.testing.broker_clock import BrokerClock, Snapshot
from ottla.testing.broker_process import (
    SAFE_PATH,
    ServedProcess,
    data_directory,
    new_directory,
    remove_directory,
    setting_arguments,
)
from ottla.testing.cluster_queries import Questions
from ottla.testing.security import client_access
from ottla.testing.security.acls import Acl, BrokerAcls
from ottla.testing.security.broker_security import BrokerSecurity

if TYPE_CHECKING:
    from ottla.client.kafka_client import KafkaClient

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
EXIT_GRACE_S = 1.0
"""Timeout, in seconds, for the exit of a process that has closed its stdout."""
_GIVEN_OTHERWISE = {
    "listeners": "host= and port=",
    "log.dirs": "data_dir=",
    "log.dir": "data_dir=",
    "ottla.control.host": "the handle itself",
    "ottla.control.port": "the handle itself",
    "ottla.control.token": "the handle itself",
    "ottla.schema.registry.port": "schema_registry=",
}
"""Settings that `Broker` sets itself, each with the argument to use instead."""


class BrokerFailed(Exception):
    """The broker did not start or did not stop. The message ends with the broker's last log lines."""


@checks_argument_types
class Broker:
    """One broker in its own process, which can be restarted on the same directory and port.

    ``settings`` are Kafka's ``server.properties`` keys, and ``features`` are feature levels. Without ``data_dir`` the broker has a
    temporary directory, which is removed at the end. The broker ends when the process that started it ends, even by SIGKILL, and
    then removes the temporary directory.

    With ``clock="manual"`` the broker's time changes only by ``clock.advance``.

    ``security`` is ``SASL_SSL``, ``SASL_PLAINTEXT``, ``SSL`` or ``mTLS``, which is SSL with client certificates. ``users`` are
    passwords by name, for PLAIN and SCRAM, or the names of clients with certificates. With ``acls`` the broker has an authorizer.
    `client_config` returns what a client needs. With ``schema_registry`` the broker has a schema registry at
    ``schema_registry_url``, which needs ``ottla[registry]``.

    Raises ValueError for settings that `Broker` sets itself, and ImportError if certificates need ``ottla[security]``.
    """

    _module = "ottla"
    """The module that the process runs. A test may use a module that adds faults."""
    _python = sys.executable
    """The Python interpreter. A benchmark may use the interpreter of another checkout."""
    _python_options: tuple[str, ...] = SAFE_PATH
    """Options of the interpreter. A test whose ``_module`` is in the working directory omits `SAFE_PATH`."""
    _has_control_api = True
    """Whether to start the control API and pass ``--owner-pid``. Older checkouts support neither."""
    _start_timeout_s = START_TIMEOUT_S

    def __init__(
        self,
        *,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: Mapping[str, str | int | bool] | None = None,
        features: Mapping[str, int] | None = None,
        clock: str = "machine",
        security: str | None = None,
        users: Mapping[str, str] | Iterable[str] | None = None,
        acls: Sequence[Acl] | None = None,
        schema_registry: bool = False,
    ) -> None:
        for name, instead in _GIVEN_OTHERWISE.items():
            if name in (settings or {}):
                raise ValueError(f"settings: {name!r} is set by {instead}; leave it out")
        # `start` creates the directory, so that a `Broker` that is never started leaves no directory.
        self._temporary = new_directory()
        self._data_dir = data_directory(data_dir, self._temporary / "data")
        # Remove the directory even if `close` is not called. If this process is killed, the broker removes the directory.
        weakref.finalize(self, remove_directory, self._temporary, os.getpid())
        if clock not in ("machine", "manual"):
            raise ValueError(f"clock: {clock!r} is neither machine nor manual")
        self.clock = BrokerClock(self._control, is_manual=clock == "manual")
        self.faults = RemoteFaults(self._control)
        """The broker's faults, such as errors, delays, lost responses and crashes (`docs/faults.md`)."""
        self._security = BrokerSecurity(security, users, acls, directory=self._temporary, host=host)
        self._questions = Questions(lambda: self.bootstrap, self._security.connecting, self.clock.approximate_ms)
        self.acls = BrokerAcls(self._questions.cluster)
        """The ACLs of the running broker."""
        self._is_prepared = False
        self._snapshots = 0
        self._remote: Remote | None = None
        self._is_paused = False
        self._host = host
        self._port = port
        self._settings = dict(settings or {})
        self._features = dict(features or {})
        self._registry_port = 0 if schema_registry else None
        self._served = ServedProcess(self._has_printed)
        self._answered = threading.Event()
        self.ready: dict[str, Any] = {}

    def __repr__(self) -> str:
        state = "paused" if self.is_paused else f"pid {self.pid}" if self.is_running else "not running"
        return f"<ottla.Broker {self.bootstrap} {state}, data in {self.data_dir}>"

    @property
    def data_dir(self) -> Path:
        return self._data_dir

    @property
    def bootstrap(self) -> str:
        """The ``host:port`` for a client's ``bootstrap.servers``."""
        return joined_address((self._host, self._port))

    @property
    def schema_registry_url(self) -> str:
        """The URL of the schema registry of a started broker. Raises ValueError for a broker without one."""
        return str(self._schema_registry()["url"])

    @property
    def schema_registry_token(self) -> str | None:
        """The schema registry's password, valid with any user name; None if no password is needed. Raises ValueError."""
        token: str | None = self._schema_registry().get("token")
        return token

    def _schema_registry(self) -> dict[str, Any]:
        if "schema_registry" not in self.ready:
            raise ValueError("the broker has no schema registry; give schema_registry=True and start it")
        found: dict[str, Any] = self.ready["schema_registry"]
        return found

    @property
    def is_running(self) -> bool:
        return self._served.is_running

    @property
    def is_copy(self) -> bool:
        """Whether this is a copy of the `Broker` in a forked process. Only the process that created the `Broker` can start and stop
        the broker.

        A copy can send requests, add faults and advance the clock. `close` does nothing in a copy.
        """
        return self._served.is_copy

    @property
    def is_paused(self) -> bool:
        """Whether `pause` or a SIGSTOP has stopped the broker."""
        return self._is_paused or self._served.is_suspended

    @property
    def pid(self) -> int | None:
        return self._served.pid

    @property
    def logs(self) -> list[str]:
        """The newest log lines since the first start, newest last."""
        return self._served.logs

    @property
    def logged_lines(self) -> int:
        """Number of lines logged since the first start."""
        return self._served.logged_lines

    def logs_since(self, logged_lines: int) -> list[str]:
        """Return the lines that were logged after the first ``logged_lines`` lines. Old lines may be missing."""
        newer = self.logged_lines - logged_lines
        return self.logs[-newer:] if newer > 0 else []

    def start(self) -> Self:
        """Start the broker, and wait until it listens. Raises `BrokerFailed`."""
        if self.is_running:
            return self
        self._check_controls()
        self._temporary.mkdir(mode=0o700, exist_ok=True)
        command = [self._python, *self._python_options, "-m", self._module, "serve", *self._security.prepare(self._settings)]
        command += [*self._security.listener(self.bootstrap), "--data-dir", str(self.data_dir), "--log-format", "json"]
        if self._has_control_api:
            command += ["--control-port", "0", "--owner-pid", str(os.getpid()), "--owned-directory", str(self._temporary)]
        if self._registry_port is not None:
            command += [f"--schema-registry={self._registry_port}"]
        command += setting_arguments(self._settings, self._features)
        if self.clock.is_manual:
            command += ["--clock", "manual" if self.clock.last_ms is None else f"manual:{self.clock.last_ms}"]
        self._is_paused = False
        self._answered.clear()
        self.ready = {}
        try:
            self._served.start(command, self._answered.set)
            self._wait_until_ready()
            # The broker chooses a free port itself, so that no other process can bind the port first.
            self._port = split_address(next(iter(self.ready["listening"].values())))[1]
            if self._registry_port is not None:
                self._registry_port = urlsplit(self.schema_registry_url).port
            if not self._is_prepared:
                self._security.add_acls(self.acls)
                self._is_prepared = True
        except BaseException:
            # Kill the process, because it has its own session and gets no SIGINT from Ctrl-C.
            self.kill()
            raise
        if self._has_control_api:
            control = self.ready["control"]
            self._remote = Remote(control["url"], control["token"])
            if self.clock.is_manual:
                self.clock.last_ms = self.clock.now_ms
        return self

    def _wait_until_ready(self) -> None:
        if not self._answered.wait(self._start_timeout_s) or not self.ready:
            self._served.kill(STOP_TIMEOUT_S, EXIT_GRACE_S if self._answered.is_set() else 0.0)
            raise BrokerFailed("the broker did not start:\n" + self._served.last_lines(20))

    def _has_printed(self, message: dict[str, Any]) -> None:
        if message.get("event") == "ready":
            self.ready = message
            self._answered.set()

    def stop(self) -> int:
        """Send SIGTERM and wait for the end of the process. Returns the exit code. Raises `BrokerFailed` after a timeout."""
        self._check_controls()
        code = self._served.stop(STOP_TIMEOUT_S)
        if code is None:
            self.kill()
            raise BrokerFailed("the broker did not stop:\n" + self._served.last_lines(20))
        self._is_paused = False
        return code

    def kill(self) -> None:
        """Crash the broker with SIGKILL."""
        self._check_controls()
        self._served.kill(STOP_TIMEOUT_S)
        self._is_paused = False

    def restart(self, *, kill: bool = False) -> Self:
        """Stop or kill the broker, and start it again on the same directory and port."""
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def close(self) -> None:
        """Stop the broker and, if the directory is temporary, remove it. Does nothing in a forked process."""
        if self.is_copy:
            return
        try:
            self.stop()
        finally:
            remove_directory(self._temporary, os.getpid())

    def begin_anew(self) -> None:
        """Reset the broker and restart it, so that a manual clock begins at the machine's time. Raises `ControlError` and
        `BrokerFailed`."""
        self.reset()
        self.stop()
        self.clock.last_ms = None
        self.start()

    def reset(self) -> None:
        """Remove all topics, groups, transactions and configs. Clients are disconnected; address and cluster id stay the same, and
        the ``users`` and ``acls`` given to `Broker` are restored.

        This and the following methods raise `ControlError`.
        """
        self._control().post("/v1/reset")
        self._security.add_acls(self.acls)

    def snapshot(self) -> Snapshot:
        """Copy the broker's data. Clients are disconnected."""
        self._snapshots += 1
        of_copy = f"{os.getpid()}-" if self.is_copy else ""
        taken = Snapshot(self._temporary / f"snapshot-{of_copy}{self._snapshots}")
        self._control().post("/v1/snapshot", {"path": str(taken.path)})
        return taken

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot, any number of times. Clients are disconnected."""
        self._control().post("/v1/restore", {"path": str(snapshot.path)})

    def pause(self) -> None:
        """Pause the broker: connections stay open, but no response is sent until `resume`."""
        self._control().post("/v1/pause")
        self._is_paused = True

    def resume(self) -> None:
        """Resume a broker that was paused by `pause` or by SIGSTOP."""
        self._served.wake()
        self._control().post("/v1/resume")
        self._is_paused = False

    client_config = client_access.client_config
    client_properties = client_access.client_properties
    delegation_token = client_access.delegation_token

    def present_certificate(self, certificate: str) -> Self:
        """Give the broker another certificate: ``expired``, ``other-host``, ``untrusted``, or ``valid``.

        The running broker loads the certificate without a restart: open connections stay open, and new connections get the
        certificate. Unless the certificate is ``valid``, the `Broker` object's own requests fail, too. Raises ValueError for a
        broker without TLS, and `ClientError`.
        """
        self._security.present_certificate(certificate, self.bootstrap if self.is_running else None)
        return self

    def open_client(self) -> KafkaClient:
        """Open the client with which the `Broker` object sends requests, as a super user. The caller must close it."""
        return self._questions.cluster()

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
        """Coroutines for the requests that wait for a broker."""
        return AsyncOperations(self)

    def history(self, transactional_id: str) -> dict[str, Any]:
        """Return the history of a transactional id since the broker's start: ``holder``, the client that owns the id, and
        ``events``: requests with clients and errors, fenced producers, decisions and markers (`docs/control.md`).

        Raises `ControlError`.
        """
        return self._control().history(transactional_id)

    def _control(self) -> Remote:
        if self._remote is None or not self.is_running:
            raise ControlError("the broker is not running; start it first")
        if self._served.is_suspended:
            raise ControlError("the broker is stopped by SIGSTOP; resume it first")
        return self._remote

    def _check_controls(self) -> None:
        if self.is_copy:
            raise BrokerFailed(self._served.copy_error("the broker"))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.close)
