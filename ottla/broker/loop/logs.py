"""Writes log lines to stderr: JSON for machines, short coloured lines for a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO, cast

import structlog

ROOT = "root"
LOGGERS = (
    "authorizer",
    "broker",
    "cluster",
    "config",
    "connection",
    "controller",
    "coordinator",
    "disk",
    "groups",
    "housekeeping",
    "http",
    "markers",
    "network",
    "membership",
    "partition",
    "peer",
    "replication",
    "share_groups",
    "share_partitions",
    "share_states",
    "transactions",
)
"""The names of the loggers of the broker's parts."""

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Kafka's names of log levels (LogLevelConfig), with their numbers in the logging module."""
_NUMBERS = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "exception": 40, "critical": 50}


class LogLevels:
    """The log level of each logger. A logger without its own level has the level of the root."""

    __slots__ = ("_at_start", "_own")

    def __init__(self) -> None:
        self._at_start = "INFO"
        self._own = {ROOT: self._at_start}

    def of(self, name: str) -> str:
        return self._own.get(name) or self._own[ROOT]

    def set(self, name: str, level: str | None) -> None:
        """Set a logger's level. None removes the logger's own level; the root's level cannot be removed."""
        if level is not None:
            self._own[name] = level
        elif name != ROOT:
            self._own.pop(name, None)

    def begin_anew(self, level: str | None = None) -> None:
        """Reset the levels: the root gets ``level``, by default its level at the start, and no logger has its own level."""
        self._at_start = level or self._at_start
        self._own = {ROOT: self._at_start}

    def only_wanted(self, logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """A structlog processor. Raises `structlog.DropEvent` for a line below its logger's level."""
        if _NUMBERS.get(method, LEVELS["FATAL"]) < LEVELS[self.of(getattr(logger, "name", ROOT))]:
            raise structlog.DropEvent
        return event


LOG_LEVELS = LogLevels()
"""The log levels of this process."""


class NamedLogger:
    """Writes rendered lines. Has the logger's name as an attribute, which `LogLevels.only_wanted` reads."""

    __slots__ = ("msg", "name")

    def __init__(self, stream: TextIO, name: str = ROOT) -> None:
        self.name = name
        # Write each line and its newline in one call, so that lines of processes that share a stream do not mix.
        self.msg = structlog.WriteLogger(stream).msg

    def __getattr__(self, method: str) -> Callable[[str], None]:
        if method in _NUMBERS:
            return self.msg
        raise AttributeError(method)


class Unfailing:
    """A stream that drops lines that cannot be written: a log file on a full disk must not stop the broker."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def configure(*, as_json: bool, level: str = "info", node: str | None = None) -> None:
    """Configure structlog for this process. ``level`` is a level's name in the logging module.

    ``node`` is added to each line, for several processes that write to one stream.
    """
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if not as_json:
        # structlog's default shows the values of variables, among them passwords, if the package rich is installed.
        plain = structlog.dev.plain_traceback
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)
    LOG_LEVELS.begin_anew({"WARNING": "WARN"}.get(level.upper(), level.upper()))
    stream = cast(TextIO, Unfailing(sys.stderr))

    def named(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {"node": node, **event}

    structlog.configure(
        processors=[
            LOG_LEVELS.only_wanted,
            *([] if node is None else [named]),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if as_json else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=lambda *names: NamedLogger(stream, *names[:1]),
        cache_logger_on_first_use=True,
    )
