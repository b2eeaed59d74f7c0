"""How much memory the inflating of batches may hold, over all requests together."""

from __future__ import annotations

from ottla.storage.steps import Pause, Steps


class InflatingMemory:
    """Whoever gets none waits in order, and is woken when there is room."""

    __slots__ = ("_waiting", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        # How much each wants, by its pause; a dict for its order.
        self._waiting: dict[Pause, int] = {}

    def take(self, size_bytes: int) -> Steps[None]:
        """Ends when there is room for so much, which is the caller's then. More than there is in all goes to one that is alone."""
        if not self._waiting and self._has_room(size_bytes):
            self.used_bytes += size_bytes
            return
        pause = Pause()
        self._waiting[pause] = size_bytes
        try:
            yield pause
        except BaseException:
            # Nobody waits any more; it may have been given already.
            if self._waiting.pop(pause, None) is None:
                self.give(size_bytes)
            raise

    def give(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        while self._waiting:
            pause, wanted_bytes = next(iter(self._waiting.items()))
            if not self._has_room(wanted_bytes):
                return
            del self._waiting[pause]
            self.used_bytes += wanted_bytes
            pause.end()

    def _has_room(self, size_bytes: int) -> bool:
        return not self.used_bytes or self.used_bytes + size_bytes <= self.limit_bytes
