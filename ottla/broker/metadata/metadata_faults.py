"""Carries out every step of a metadata change even if one of them fails.

Each change is applied once and then forgotten: a step skipped because of an earlier failure would never be carried out. Apache
Kafka passes such failures to its metadataPublishingFaultHandler, and continues as well.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

log = structlog.get_logger("cluster")


class MetadataFaults:
    """Collects the failures while one change is carried out."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: Exception | None = None

    def attempt(self, step: Callable[[], object], what: str, **of: object) -> None:
        """Carry out one step. ``what`` and ``of`` name it in the log."""
        try:
            step()
        except Exception as error:
            log.error("metadata_step_failed", step=what, **of, reason=repr(error))
            self._first = self._first or error

    def raise_first(self) -> None:
        """Raise the first failure after all other steps were carried out. It is a bug, and is counted as one."""
        if self._first is not None:
            raise self._first
