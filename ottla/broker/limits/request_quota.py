"""The quota of one request that creates or deletes partitions (ControllerMutationQuota)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

RecordMutation: TypeAlias = Callable[[int], None]
"""Takes a number of partitions that are created or deleted. Raises THROTTLING_QUOTA_EXCEEDED if a strict quota is exhausted."""


class RequestQuota(Protocol):
    """The quota of one request that creates or deletes partitions."""

    @property
    def throttle_ms(self) -> int:
        """How long the client must be throttled from now on."""
        ...

    def record(self, partition_count: int) -> None:
        """Record a change (`RecordMutation`)."""
        ...


class Unlimited:
    """The quota of a request without one."""

    throttle_ms = 0

    def record(self, partition_count: int) -> None: ...


UNLIMITED = Unlimited()
unlimited = UNLIMITED.record
