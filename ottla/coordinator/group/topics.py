"""What the coordinators of groups ask of the cluster's metadata."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class Topics(Protocol):
    """The topics that exist now. Groups of the newer protocols name topics by id, subscriptions by name."""

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int:
        """0 for a topic that does not exist."""
        ...

    def topic_names(self) -> Collection[str]:
        """In the order in which the topics were made."""
        ...
