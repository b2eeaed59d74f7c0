"""Common code of all server processes: sets up the process, runs the event loop, and reports errors of the start."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import structlog

from ottla.broker.config.definitions import ConfigError
from ottla.broker.loop import logs
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.metrics.metrics_endpoint import ServedMetrics
from ottla.broker.process.ready_file import ReadyFile
from ottla.process import print_error
from ottla.storage.filesystem import Filesystem, sync_file, sync_names
from ottla.storage.identity import METADATA_DIRECTORY, DirectoryError
from ottla.storage.memory import keep_freed_memory

GC_THRESHOLDS = (10_000, 50, 100)
"""The thresholds of Python's garbage collector. They are high, because a server makes few reference cycles."""
SWITCH_INTERVAL_S = 0.001
"""How long another thread may keep Python's interpreter lock while the event loop waits for it, in s."""


class Owner(Protocol):
    """The process that has started this process. When the owner ends, this process ends too."""

    def watch(self, end: Callable[[], None]) -> None:
        """Call ``end`` from another thread when the owner has ended."""
        ...

    def ended(self) -> None:
        """Called when this process is about to end."""
        ...


def run_process(
    serve: Callable[[], Coroutine[None, None, None]],
    *,
    as_json: bool,
    log_level: str,
    warnings: Mapping[str, str | None],
    owner: Owner | None = None,
    node: str | None = None,
    begin: Callable[[], None] | None = None,
) -> int:
    """Serve until the coroutine of ``serve`` ends. Returns the exit code: 0 after a clean stop, 1 if the server could not start.

    ``warnings`` maps settings without effect to the setting that was probably meant. ``node`` is set if the process is a node of
    ``serve --brokers``: it is added to log lines, and the reason of a failed start is written to stdout for the parent process.
    ``begin`` is called after logging is configured.
    """
    # Imported objects live as long as the process. `gc.freeze` exempts them from garbage collection, which is enabled only now.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    logs.configure(as_json=as_json, level=log_level, node=node)
    if begin is not None:
        begin()
    keep_freed_memory()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    log = structlog.get_logger("config")
    for name, meant in warnings.items():
        log.warning("setting_ignored", name=name, **({"did_you_mean": meant} if meant else {}))
    try:
        _run(serve())
    except (DirectoryError, ConfigError) as error:
        return _failed(str(error), node)
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        return _failed(f"cannot start: {where}{error.strerror or error}", node)
    finally:
        if owner is not None:
            owner.ended()
    return 0


def _failed(reason: str, node: str | None) -> int:
    print_error(f"ottla: {reason}")
    if node is not None:
        with suppress(OSError):
            print(json.dumps({"event": "failed", "reason": reason}), flush=True)
    return 1


def _run(serving: Coroutine[None, None, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(serving)
    else:
        uvloop.run(serving)


def report_bugs_of_callbacks(lifecycle: Callable[[], Lifecycle]) -> None:
    """Report exceptions of the event loop's callbacks, such as timers, as bugs. Called on the event loop.

    By default asyncio logs an exception with its text, which may contain a secret, and the broker does not count it. Errors of
    sockets and of TLS are no bugs, and keep asyncio's handling.
    """

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and not isinstance(error, OSError):
            # A timer of an authentication or of a load of keys may show a secret.
            lifecycle().bug("callback_failed", error, may_have_secrets=True, message=context.get("message", ""))
        else:
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(report)


def stop_at_signals(stop_wanted: asyncio.Event, owner: Owner | None) -> None:
    """Make SIGTERM, SIGINT and the end of the owner set ``stop_wanted``. Called on the event loop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_wanted.set)
    if owner is not None:

        def end() -> None:
            loop.call_soon_threadsafe(stop_wanted.set)

        owner.watch(end)


def serve_metrics(host: str, port: int) -> ServedMetrics:
    # Imported only if metrics are served, because the import is slow.
    from ottla.broker.metrics.server import MetricsServer

    return MetricsServer(host, port)


def remove_users_file(fs: Filesystem, directory: str, path: Path | None) -> None:
    """Remove the file of first users after they were created, so that a user that is deleted later is not created again.

    A start that cannot remove the file fails. Raises OSError.
    """
    if path is not None:
        # Sync the created users first, because a power cut could otherwise lose both them and the file.
        metadata = f"{directory}/{METADATA_DIRECTORY}"
        for name in fs.list_dir(metadata):
            if name.endswith(".log"):
                sync_file(fs, f"{metadata}/{name}")
        sync_names(fs, metadata)
        path.unlink(missing_ok=True)
        sync_names(fs, str(path.parent))
        structlog.get_logger("broker").info("first_users_file_removed", path=str(path))


def report_ready(
    ready: Mapping[str, Any], ready_file: ReadyFile, for_people: str, *further_lines: str, is_secret: bool = False
) -> None:
    """Write the ready file, and report on stdout that the server is ready: as JSON, or on a terminal by the text ``for_people``."""
    line = json.dumps(ready)
    ready_file.write(line + "\n", is_secret=is_secret)
    try:
        print(for_people if sys.stdout.isatty() else line, *further_lines, sep="\n", flush=True)
    except OSError as error:
        # Name stdout in the error: its reader has closed the pipe, or the disk is full.
        error.filename = "stdout"
        raise
