"""The phase of a broker between its start and its stop, for its work in the background, and the bugs that were met meanwhile."""

from __future__ import annotations

import sys
from typing import Any, Final

import structlog

from ottla.broker.loop.env import Clock
from ottla.broker.loop.repeated_errors import RepeatedErrors

REASON_CHARACTERS: Final = 200
"""How much of an exception is its reason. The traceback in the same line has the whole."""

log = structlog.get_logger("broker")


class Lifecycle:
    """Shared by all parts of one broker. The broker itself sets the flags; every part may report a bug."""

    __slots__ = ("_errors", "is_leaving", "is_serving", "is_stopping", "unexpected_errors")

    def __init__(self, clock: Clock) -> None:
        self._errors = RepeatedErrors(clock, log)
        self.is_serving = False
        """Whether clients may connect. From then on long work must run in steps."""
        self.is_leaving = False
        """Whether the broker has begun to stop. A member of a cluster goes on serving until its controller has let it go."""
        self.is_stopping = False
        """Whether the directory is about to be closed. From then on no work may begin."""
        self.unexpected_errors = 0
        """How many unexpected exceptions there were. Each of them is a bug of the broker."""

    def bug(self, event: str, **fields: Any) -> None:
        """Log and count the exception that is being handled, which nobody has expected. Called in an ``except`` block.

        A client or a timer may run into the same bug again and again, so the log has its traceback once, and then its count.
        """
        self.unexpected_errors += 1
        self._errors.failed(event, repr(sys.exception())[:REASON_CHARACTERS], level="exception", **fields)
