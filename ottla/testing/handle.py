"""A handle on a broker process: starts, stops, kills and restarts it on the same directory, and empties it for each test."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.addresses import joined_address, split_address
from ottla.client.real_time import now_ms
from ottla.control.durations import duration_ms
from ottla.control.faults.remote_faults import RemoteFaults
from ottla.control.remote import ControlError, Remote
from ottla.testing.broker_process import (
    SAFE_PATH,
    ServedProcess,
    data_directory,
    new_directory,
    remove_directory,
    setting_arguments,
)
from ottla.testing.cluster_queries import Questions, wait_for

if TYPE_CHECKING:
    from ottla.client.reading import Isolation
    from ottla.client.records import ConsumedRecord
    from ottla.client.transactions import TransactionDescription

T = TypeVar("T")

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
EXIT_GRACE_S = 1.0
"""How long a process that has closed its stdout may take to end, in seconds."""
_GIVEN_OTHERWISE = {
    "listeners": "host= and port=",
    "log.dirs": "data_dir=",
    "log.dir": "data_dir=",
    "ottla.control.host": "the handle itself",
    "ottla.control.port": "the handle itself",
    "ottla.control.token": "the handle itself",
}
"""Settings that the handle sets itself, with the handle's argument that determines each."""


class BrokerFailed(Exception):
    """The broker did not start or did not stop. The text ends with the broker's last log lines."""


class Snapshot:
    """The state of a broker at one moment, to which `Broker.restore` goes back. It exists as long as the directory of its
    broker."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def __repr__(self) -> str:
        return f"<ottla.Snapshot {self.path}>"


class BrokerClock:
    """The clock of a broker. A manual clock stands still until `advance`."""

    def __init__(self, control: Callable[[], Remote], *, is_manual: bool) -> None:
        self._control = control
        self.is_manual = is_manual
        self.last_ms: int | None = None
        """The last known time of a manual clock, in ms. A broker that is started again begins at this time."""

    def __repr__(self) -> str:
        return f"<ottla.Clock {'manual' if self.is_manual else 'machine'}>"

    @property
    def now_ms(self) -> int:
        """The time in ms since 1970. Raises `ControlError`."""
        shown: int = self._control().get("/v1/clock")["now_ms"]
        return shown

    def approximate_ms(self) -> int:
        """The time of `now_ms`, without asking the broker."""
        return now_ms() if self.last_ms is None else self.last_ms

    def advance(self, duration: str | timedelta) -> None:
        """Let time pass: ``61s``, ``1h30m``, ``7d``. Timers that become due are called in the order of their times before this
        returns.

        Raises ValueError for an invalid duration, and `ControlError` for a broker whose clock is not manual.
        """
        self.last_ms = self._control().post("/v1/clock/advance", {"by_ms": duration_ms(duration)})["now_ms"]


class Broker:
    """One broker in a process of its own, on a directory that outlives a restart.

    ``settings`` are Kafka's ``server.properties`` keys, and ``features`` are feature levels. Without ``data_dir`` the broker has a
    temporary directory, which is removed at the end. The port stays the same over restarts. The broker ends with the process that
    has started it, even where that process is killed, and then also removes its temporary directory.

    With ``clock="manual"`` time stands still until `clock` is moved.

    Raises ValueError for a setting that the handle sets itself: the listeners and the data directory.
    """

    _module = "ottla"
    """The module that the process runs. A test may name one that adds faults."""
    _python = sys.executable
    """The Python that runs the module. A benchmark may name the Python of another checkout."""
    _python_options: tuple[str, ...] = SAFE_PATH
    """Options of that Python. A test whose module is in the working directory leaves them out."""
    _is_steered = True
    """Whether the process has a control API and an owner. Older checkouts have neither."""
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
    ) -> None:
        for name, instead in _GIVEN_OTHERWISE.items():
            if name in (settings or {}):
                raise ValueError(f"settings: {name!r} is given by {instead}")
        # The broker makes the directory, so that a handle that is never started leaves nothing behind.
        self._temporary = new_directory()
        self._data_dir = data_directory(data_dir, self._temporary / "data")
        # This removes the directory where nobody closes the handle. Where this process is killed, the broker removes it.
        weakref.finalize(self, remove_directory, self._temporary, os.getpid())
        if clock not in ("machine", "manual"):
            raise ValueError(f"clock: {clock!r} is neither machine nor manual")
        self.clock = BrokerClock(self._control, is_manual=clock == "manual")
        self.faults = RemoteFaults(self._control)
        """Faults on demand, such as errors, delays, lost answers and crashes: `docs/faults.md`."""
        self._questions = Questions(lambda: self.bootstrap)
        self._snapshots = 0
        self._remote: Remote | None = None
        self._is_paused = False
        self._host = host
        self._port = port
        self._settings = dict(settings or {})
        self._features = dict(features or {})
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
    def is_running(self) -> bool:
        return self._served.is_running

    @property
    def is_copy(self) -> bool:
        """Whether the present process was forked from the one that created this handle, which alone starts and stops the broker.

        A copy answers questions, adds faults and moves the clock as the handle does. Its `close` does nothing.
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
        """The newest lines that the broker has logged in all its lives, newest last."""
        return self._served.logs

    @property
    def logged_lines(self) -> int:
        """How many lines the broker has logged in all its lives."""
        return self._served.logged_lines

    def logs_since(self, logged_lines: int) -> list[str]:
        """The lines after the first ``logged_lines`` lines, as far as they are kept."""
        newer = self.logged_lines - logged_lines
        return self.logs[-newer:] if newer > 0 else []

    def start(self) -> Self:
        """Start the broker, and wait until it listens. Raises `BrokerFailed`."""
        if self.is_running:
            return self
        self._check_controls()
        command = [self._python, *self._python_options, "-m", self._module, "serve"]
        command += ["--listen", self.bootstrap, "--data-dir", str(self.data_dir), "--log-format", "json"]
        if self._is_steered:
            command += ["--control-port", "0", "--owner-pid", str(os.getpid()), "--owned-directory", str(self._temporary)]
        command += setting_arguments(self._settings, self._features)
        if self.clock.is_manual:
            command += ["--clock", "manual" if self.clock.last_ms is None else f"manual:{self.clock.last_ms}"]
        self._temporary.mkdir(mode=0o700, exist_ok=True)
        self._is_paused = False
        self._answered.clear()
        self.ready = {}
        try:
            self._served.start(command, self._answered)
            self._wait_until_ready()
        except BaseException:
            # The process is ended even where Ctrl-C interrupts: it has a session of its own, so nothing else would end it.
            self.kill()
            raise
        # The broker has chosen a free port itself, so that no other process can have taken the port before the broker.
        self._port = split_address(next(iter(self.ready["listening"].values())))[1]
        if self._is_steered:
            control = self.ready["control"]
            self._remote = Remote(control["url"], control["token"])
            if self.clock.is_manual:
                # A manual clock stands at this time until somebody moves it.
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
        """Send SIGTERM and wait for the process. Returns the exit code. Raises `BrokerFailed` when the process does not end."""
        self._check_controls()
        code = self._served.stop(STOP_TIMEOUT_S)
        if code is None:
            self.kill()
            raise BrokerFailed("the broker did not stop:\n" + self._served.last_lines(20))
        self._is_paused = False
        return code

    def kill(self) -> None:
        """Send SIGKILL, which is like a crash."""
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
        """Empty the broker as `reset` does, and restart it with a manual clock at the machine's time: `reset` keeps the time.

        Raises `ControlError` and `BrokerFailed`.
        """
        self.reset()
        self.stop()
        self.clock.last_ms = None
        self.start()

    def reset(self) -> None:
        """Remove all topics, groups, transactions and settings. Clients lose their connections; address and cluster id stay.

        Raises `ControlError`, as do the following methods.
        """
        self._control().post("/v1/reset")

    def snapshot(self) -> Snapshot:
        """Copy the state of the broker. Clients lose their connections."""
        self._snapshots += 1
        of_copy = f"{os.getpid()}-" if self.is_copy else ""
        taken = Snapshot(self._temporary / f"snapshot-{of_copy}{self._snapshots}")
        self._control().post("/v1/snapshot", {"path": str(taken.path)})
        return taken

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot, which may be done any number of times. Clients lose their connections."""
        self._control().post("/v1/restore", {"path": str(snapshot.path)})

    def pause(self) -> None:
        """Let the broker stand still: connections stay open, and nothing is answered until `resume`."""
        self._control().post("/v1/pause")
        self._is_paused = True

    def resume(self) -> None:
        """Let a paused broker go on, also one that SIGSTOP has stopped."""
        self._served.wake()
        self._control().post("/v1/resume")
        self._is_paused = False

    def create_topic(self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic. By default it has ``num.partitions`` partitions.

        Raises `ottla.client.ClientError`, as do the following methods.
        """
        self._questions.create_topic(name, partitions, configs)

    def records(self, topic: str, isolation: Isolation = "committed") -> list[ConsumedRecord]:
        """All records that a topic has now, by partition and offset: the committed ones, the aborted ones, or all."""
        return self._questions.records(topic, isolation)

    def transaction(self, transactional_id: str) -> TransactionDescription:
        """The current transaction of an id."""
        return self._questions.transaction(transactional_id)

    def history(self, transactional_id: str) -> dict[str, Any]:
        """The events of a transactional id since the broker was started, as `docs/control.md` describes them: ``holder``, the
        client that has the id, and ``events``, which are requests with their clients and errors, fenced producers, decisions and
        markers.

        Raises `ControlError`.
        """
        return self._control().history(transactional_id)

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """How many offsets a group has not committed yet, by topic and partition, up to the high watermark and with the markers of
        transactions. A partition that a member owns and for which nothing is committed counts from the log's start."""
        return self._questions.lag(group)

    def wait_for(self, condition: Callable[[], T], timeout_s: float = 10.0) -> T:
        """Wait until ``condition`` returns a true value, and return that value. Raises TimeoutError with the last value.

        A condition that fails because a topic, group or transactional id does not exist yet is called again.
        """
        return wait_for(condition, timeout_s)

    def _control(self) -> Remote:
        if self._remote is None or not self.is_running:
            raise ControlError("the broker is not running; start it first")
        if self._served.is_suspended:
            raise ControlError("SIGSTOP has stopped the broker; resume it first")
        return self._remote

    def _check_controls(self) -> None:
        """Raises `BrokerFailed` in a forked process."""
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
