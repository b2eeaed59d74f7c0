"""Log lines: JSON for machines, short coloured lines for a terminal. Both go to stderr."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog


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
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if as_json else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, Unfailing(sys.stderr))),
        cache_logger_on_first_use=True,
    )
