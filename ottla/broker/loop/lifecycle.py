"""The phase of a broker between its start and its stop, which all its parts can read, and the count of its bugs."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import structlog

from ottla.broker.loop.env import Clock
from ottla.broker.loop.repeated_errors import RepeatedErrors

REASON_CHARACTERS: Final = 200
"""Maximum length, in characters, of a bug's ``reason`` in the log. The traceback in the same line has the whole text."""

HIDDEN: Final = "the text is hidden, because it may contain a secret"

log = structlog.get_logger("broker")


class Lifecycle:
    """The phase of one broker, which all its parts share. The broker itself sets the flags; every part may report a bug."""

    __slots__ = ("_errors", "is_leaving", "is_serving", "is_stopping", "unexpected_errors")

    def __init__(self, clock: Clock) -> None:
        self._errors = RepeatedErrors(clock, log)
        self.is_serving = False
        """Whether clients may connect. While this is set, long work must run in steps."""
        self.is_leaving = False
        """Whether the broker has begun to stop. A member of a cluster still serves until its controller allows the shutdown."""
        self.is_stopping = False
        """Whether the data directory is about to be closed. If so, no work may begin."""
        self.unexpected_errors = 0
        """Number of unexpected exceptions, which are bugs of the broker."""

    def bug(self, event: str, error: Exception | None = None, *, may_have_secrets: bool = False, **fields: Any) -> None:
        """Log and count an unexpected exception, by default the one that is being handled in an ``except`` block.

        A client or a timer may repeat a bug, so its traceback is logged once, and later only the count. With ``may_have_secrets``
        the texts of the exceptions are hidden, because they may contain a password or token: a KeyError has the key.
        """
        self.unexpected_errors += 1
        raised = error or sys.exception()
        if may_have_secrets and raised is not None:
            self._errors.failed(event, without_text(raised), level="error", exception=_without_texts(raised), **fields)
            return
        self._errors.failed(event, repr(raised)[:REASON_CHARACTERS], level="exception", **fields)

    def work_failed(self) -> None:
        """Report a bug in background work or in a callback. Called in an ``except`` block.

        Such work handles the metadata log, which has credentials and secret configs, and this node's authentication at other nodes.
        """
        self.bug("work_failed", may_have_secrets=True)


def without_text(error: BaseException) -> str:
    """The type of an exception and the place where it was raised, which distinguishes two bugs of one type."""
    places = traceback.extract_tb(error.__traceback__)
    where = f" at {places[-1].filename}:{places[-1].lineno}" if places else ""
    return f"{type(error).__name__}{where} ({HIDDEN})"


def _without_texts(error: BaseException) -> str:
    """A traceback without the texts of the exceptions, the first cause first."""
    parts: list[str] = []
    shown: BaseException | None = error
    while shown is not None:
        parts.insert(0, f"{''.join(traceback.format_tb(shown.__traceback__))}{type(shown).__name__}: {HIDDEN}")
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
    return "\n".join(parts)


def count_from_thread(loop: asyncio.AbstractEventLoop, lifecycle: Callable[[], Lifecycle]) -> None:
    """Count an unexpected error of an HTTP server's thread as an error of the node, on the node's event loop."""

    def count() -> None:
        lifecycle().unexpected_errors += 1

    # RuntimeError means that the loop is closed: the node has stopped.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(count)
