"""Log lines: JSON for machines, short coloured lines for a terminal. Both go to stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO, cast

import structlog

ROOT = "root"
LOGGERS = (
    "broker",
    "cluster",
    "config",
    "connection",
    "coordinator",
    "disk",
    "fetch",
    "groups",
    "housekeeping",
    "markers",
    "network",
    "partition",
    "share_groups",
    "share_partitions",
    "share_states",
    "transactions",
)
"""The names under which the broker's parts write lines."""

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Kafka's names of levels (LogLevelConfig), by the numbers of the logging module."""
_NUMBERS = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "exception": 40, "critical": 50}


class LogLevels:
    """From which level on each part writes lines. A part that has none of its own has that of the root."""

    __slots__ = ("_at_start", "_own")

    def __init__(self) -> None:
        self._at_start = "INFO"
        self._own = {ROOT: self._at_start}

    def of(self, name: str) -> str:
        return self._own.get(name) or self._own[ROOT]

    def set(self, name: str, level: str | None) -> None:
        """None takes a part's own level back; the root always has one."""
        if level is not None:
            self._own[name] = level
        elif name != ROOT:
            self._own.pop(name, None)

    def begin_anew(self, level: str | None = None) -> None:
        """As at a start: the root at ``level``, or where it was at the start, and no part with a level of its own."""
        self._at_start = level or self._at_start
        self._own = {ROOT: self._at_start}

    def only_wanted(self, logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """A processor of structlog. Raises `structlog.DropEvent` for a line below its part's level."""
        if _NUMBERS.get(method, LEVELS["FATAL"]) < LEVELS[self.of(getattr(logger, "name", ROOT))]:
            raise structlog.DropEvent
        return event


LOG_LEVELS = LogLevels()
"""Of this process, as structlog's own configuration is."""


class NamedLogger:
    """Writes finished lines, and knows whose they are."""

    __slots__ = ("msg", "name")

    def __init__(self, stream: TextIO, name: str = ROOT) -> None:
        self.name = name
        self.msg = structlog.PrintLogger(stream).msg

    def __getattr__(self, method: str) -> Callable[[str], None]:
        if method in _NUMBERS:
            return self.msg
        raise AttributeError(method)


class Unfailing:
    """A stream whose lines get lost where it takes none: a log file on a full disk must not stop what it tells of."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def configure(*, as_json: bool, level: str = "info") -> None:
    """Set structlog up for this process. ``level`` is a name of the logging module."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    LOG_LEVELS.begin_anew({"WARNING": "WARN"}.get(level.upper(), level.upper()))
    stream = cast(TextIO, Unfailing(sys.stderr))
    structlog.configure(
        processors=[
            LOG_LEVELS.only_wanted,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if as_json else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=lambda *names: NamedLogger(stream, *names[:1]),
        cache_logger_on_first_use=True,
    )
