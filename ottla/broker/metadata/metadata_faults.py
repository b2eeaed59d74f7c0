"""Has every step of a change of the metadata carried out, whatever goes wrong with one of them.

A change is carried out once, and is forgotten then: a step that was left out because an earlier one has failed would never be
carried out. Apache Kafka hands what goes wrong to its metadataPublishingFaultHandler, and goes on as well.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

log = structlog.get_logger("cluster")


class MetadataFaults:
    """What has gone wrong while one change was carried out."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: Exception | None = None

    def attempt(self, step: Callable[[], object], what: str, **of: object) -> None:
        """Carry out one step. ``what`` and ``of`` name it, for the log."""
        try:
            step()
        except Exception as error:
            log.error("metadata_step_failed", step=what, **of, reason=repr(error))
            self._first = self._first or error

    def raise_first(self) -> None:
        """Raise what has gone wrong first, once everything else is carried out. It is a bug, and is counted as one."""
        if self._first is not None:
            raise self._first
