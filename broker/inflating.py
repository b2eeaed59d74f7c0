"""How much memory the inflating of batches may hold, over all requests together."""

from __future__ import annotations


class InflatingMemory:
    """Who gets none tries again at its next step; whoever comes first is served, however much it needs."""

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def take(self, size: int) -> bool:
        """Whether there is room. More than there is in all is given to one that is alone."""
        if self.used_bytes and self.used_bytes + size > self.limit_bytes:
            return False
        self.used_bytes += size
        return True

    def give(self, size: int) -> None:
        self.used_bytes -= size
