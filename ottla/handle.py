"""A handle on a broker process: start, stop, kill, restart on the same directory; a clean broker for each test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from ottla.addresses import split_address
from ottla.control.durations import duration_ms
from ottla.control.remote import ControlError, Remote
from ottla.control.remote_faults import RemoteFaults
from ottla.questions import Questions, wait_for

if TYPE_CHECKING:
    from ottla.client.reading import Isolation
    from ottla.client.records import Record
    from ottla.client.transactions import Transaction

T = TypeVar("T")

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
KEPT_LOG_LINES = 10_000
_GIVEN_OTHERWISE = {
    "listeners": "host= and port=",
    "log.dirs": "data_dir=",
    "log.dir": "data_dir=",
    "ottla.control.host": "the handle itself",
    "ottla.control.port": "the handle itself",
    "ottla.control.token": "the handle itself",
}
"""Settings that the handle gives itself, and by what it is told them."""


class BrokerFailed(Exception):
    """The broker did not start or did not stop; the text ends with its last log lines."""


class Snapshot:
    """All that a broker held at one moment; `Broker.restore` goes back to it. It is kept as long as its broker's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<ottla.Snapshot {self.path}>"


class Clock:
    """A broker's clock. One that is manual stands still until `advance`."""

    def __init__(self, control: Callable[[], Remote], *, is_manual: bool) -> None:
        self._control = control
        self.is_manual = is_manual
        self.last_ms: int | None = None
        """Where a manual one stands: a broker that is started again goes on from there."""

    def __repr__(self) -> str:
        return f"<ottla.Clock {'manual' if self.is_manual else 'machine'}>"

    @property
    def now_ms(self) -> int:
        """In ms since 1970. Raises `ControlError`."""
        shown: int = self._control().get("/v1/clock")["now_ms"]
        return shown

    def approximate_ms(self) -> int:
        """`now_ms` without asking the broker."""
        return time.time_ns() // 1_000_000 if self.last_ms is None else self.last_ms

    def advance(self, duration: str | timedelta) -> None:
        """Let time pass: ``61s``, ``1h30m``, ``7d``. What is due on the way happens in its order, before this returns.

        Raises ValueError for what is no duration, `ControlError` for a broker whose clock is not manual.
        """
        self.last_ms = self._control().post("/v1/clock/advance", {"by_ms": duration_ms(duration)})["now_ms"]


class Broker:
    """One broker in a process of its own, on a directory that outlives a restart.

    ``settings`` are Kafka's ``server.properties`` keys, ``features`` feature levels. Without ``data_dir`` a temporary
    directory is used and removed at the end. The port stays the same over restarts. A broker ends with the process that has
    started it, and its temporary directory with it, also where that process is killed.

    With ``clock="manual"`` time stands still until `clock` is moved.

    Raises ValueError for a setting that the handle gives itself: where it listens and where its data lies.
    """

    _module = "ottla"
    """What the process runs; a test may put faults around it."""
    _python = sys.executable
    """What runs it; a benchmark may name the Python of another checkout."""
    _is_steered = True
    """Whether it has a door and an owner, which a checkout of before has not."""
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
        # Made by the broker, so that nothing is left where it is never started.
        self._temporary = Path(tempfile.gettempdir(), f"ottla-{uuid.uuid4().hex[:12]}")
        self._data_dir = Path(data_dir) if data_dir is not None else self._temporary / "data"
        # Where nobody closes the handle. Where the process is killed, the broker sees to it.
        weakref.finalize(self, _remove, self._temporary, os.getpid())
        if clock not in ("machine", "manual"):
            raise ValueError(f"clock: {clock!r} is neither machine nor manual")
        self.clock = Clock(self._control, is_manual=clock == "manual")
        self.faults = RemoteFaults(self._control)
        """Errors, delays, lost answers and crashes on demand: `docs/faults.md`."""
        self._questions = Questions(lambda: self.bootstrap)
        self._snapshots = 0
        self._remote: Remote | None = None
        self._is_paused = False
        self._host = host
        self._port = port
        self._settings = dict(settings or {})
        self._features = dict(features or {})
        self._process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []
        self._lines: deque[str] = deque(maxlen=KEPT_LOG_LINES)
        self.logged_lines = 0
        """How many lines the broker has logged, over all its starts."""
        self.ready: dict[str, Any] = {}

    def __repr__(self) -> str:
        state = "paused" if self._is_paused else f"pid {self.pid}" if self.is_running else "not running"
        return f"<ottla.Broker {self.bootstrap} {state}, data in {self.data_dir}>"

    # state

    @property
    def data_dir(self) -> Path:
        return self._data_dir

    @property
    def bootstrap(self) -> str:
        """``host:port`` for a client's ``bootstrap.servers``."""
        return f"{self._host}:{self._port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def logs(self) -> list[str]:
        """Lines the broker has logged, over all its starts, newest last."""
        return list(self._lines)

    def logs_since(self, logged_lines: int) -> list[str]:
        """Those after the first ``logged_lines``, as far as they are kept."""
        newer = self.logged_lines - logged_lines
        return self.logs[-newer:] if newer > 0 else []

    # life

    def start(self) -> Self:
        """Raises `BrokerFailed`."""
        if self.is_running:
            return self
        command = [self._python, "-m", self._module, "serve"]
        command += ["--listen", self.bootstrap, "--data-dir", str(self.data_dir), "--log-format", "json"]
        if self._is_steered:
            command += ["--control-port", "0", "--owner-pid", str(os.getpid()), "--owned-directory", str(self._temporary)]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
        for name, level in self._features.items():
            command += ["--feature", f"{name}={level}"]
        if self.clock.is_manual:
            command += ["--clock", "manual" if self.clock.last_ms is None else f"manual:{self.clock.last_ms}"]
        self._temporary.mkdir(mode=0o700, exist_ok=True)
        self._is_paused = False
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("KAFKA_", "OTTLA_"))}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        self._process = process
        try:
            self._wait_until_ready(process)
        except BaseException:
            # Also where Ctrl-C interrupts: nobody else knows of the process, which has a session of its own.
            self.kill()
            raise
        # The broker has taken a free one itself, which nobody can have taken before it.
        self._port = split_address(next(iter(self.ready["listening"].values())))[1]
        if self._is_steered:
            control = self.ready["control"]
            self._remote = Remote(control["url"], control["token"])
            if self.clock.is_manual:
                # Where it stands until somebody moves it.
                self.clock.last_ms = self.clock.now_ms
        return self

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        answered = threading.Event()
        for reader in (
            threading.Thread(target=self._read_ready, args=(process, answered), daemon=True),
            threading.Thread(target=self._read_logs, args=(process,), daemon=True),
        ):
            reader.start()
            self._readers.append(reader)
        if not answered.wait(self._start_timeout_s) or not self.ready:
            self.kill()
            raise BrokerFailed("the broker did not start:\n" + "\n".join(self.logs[-20:]))

    def _read_ready(self, process: subprocess.Popen[str], answered: threading.Event) -> None:
        self.ready = {}
        for line in _lines_of(process.stdout):
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if message.get("event") == "ready":
                    self.ready = message
                    answered.set()
        answered.set()

    def _read_logs(self, process: subprocess.Popen[str]) -> None:
        for line in _lines_of(process.stderr):
            self._lines.append(line.rstrip("\n"))
            self.logged_lines += 1

    def _ended(self, process: subprocess.Popen[str]) -> None:
        for reader in self._readers:
            reader.join(STOP_TIMEOUT_S)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        self._readers = []
        self._process = None
        self._is_paused = False

    def stop(self) -> int:
        """SIGTERM, and wait; the exit code. Raises `BrokerFailed` when it does not end."""
        process = self._process
        if process is None:
            return 0
        process.terminate()
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed("the broker did not stop:\n" + "\n".join(self.logs[-20:])) from None
        self._ended(process)
        return code

    def kill(self) -> None:
        """SIGKILL: what a crash does."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait()
        self._ended(process)

    def restart(self, *, kill: bool = False) -> Self:
        """Stop (or kill) and start again on the same directory and port."""
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def close(self) -> None:
        """Stop and, if the directory was temporary, remove it."""
        try:
            self.stop()
        finally:
            _remove(self._temporary, os.getpid())

    # while it runs

    def reset(self) -> None:
        """All topics, groups, transactions and settings are gone, and clients lose their connections; address and cluster id stay.

        Raises `ControlError`, as do the following.
        """
        self._control().post("/v1/reset")

    def snapshot(self) -> Snapshot:
        """Keep all that the broker holds. Clients lose their connections."""
        self._snapshots += 1
        taken = Snapshot(self._temporary / f"snapshot-{self._snapshots}")
        self._control().post("/v1/snapshot", {"path": str(taken.path)})
        return taken

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot, as often as wanted. Clients lose their connections."""
        self._control().post("/v1/restore", {"path": str(snapshot.path)})

    def pause(self) -> None:
        """The broker stands still: connections stay open, and nothing is answered until `resume`."""
        self._control().post("/v1/pause")
        self._is_paused = True

    def resume(self) -> None:
        self._control().post("/v1/resume")
        self._is_paused = False

    # questions

    def create_topic(self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None) -> None:
        """With as many partitions as the setting ``num.partitions`` says, unless they are given.

        Raises `ottla.client.ClientError`, as do the following.
        """
        self._questions.create_topic(name, partitions, configs)

    def records(self, topic: str, isolation: Isolation = "committed") -> list[Record]:
        """All that a topic holds now, by partition and offset: what is committed, what was aborted, or all."""
        return self._questions.records(topic, isolation)

    def transaction(self, transactional_id: str) -> Transaction:
        """The transaction of an id as it stands."""
        return self._questions.transaction(transactional_id)

    def history(self, transactional_id: str) -> dict[str, Any]:
        """What has happened to a transactional id since the broker was started, as `docs/control.md` has it: ``holder``, the client
        that has it, and ``events``: requests with their clients and errors, who was fenced, decisions and markers.

        Raises `ControlError`.
        """
        return self._control().history(transactional_id)

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """How many records a group has not committed yet, by topic and partition."""
        return self._questions.lag(group)

    def wait_for(self, condition: Callable[[], T], timeout_s: float = 10.0) -> T:
        """What ``condition`` gives, once that is true. Raises TimeoutError, with what it gave last.

        A topic, group or transactional id that it asks for and that is not there yet is waited for as well.
        """
        return wait_for(condition, timeout_s)

    def _control(self) -> Remote:
        if self._remote is None or not self.is_running:
            raise ControlError("the broker is not running; start it first")
        return self._remote

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.close)


def _remove(directory: Path, pid: int) -> None:
    """A process that was forked off the handle's has the handle as well, and none of its directories."""
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)


def _lines_of(pipe: IO[str] | None) -> Iterator[str]:
    """Until its end, or until it is closed: nobody waits for a reader whose start was interrupted."""
    assert pipe is not None
    with contextlib.suppress(ValueError):
        yield from pipe
