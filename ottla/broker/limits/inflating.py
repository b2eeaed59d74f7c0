"""Limits the memory that all requests together use for decompressing batches."""

from __future__ import annotations

from ottla.protocol.steps import Pause


class InflatingMemory:
    """A memory budget in bytes, for which coroutines wait in the order of their arrival."""

    __slots__ = ("_waiting", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        # Bytes that each waiting coroutine needs, by its `Pause`, in order of arrival.
        self._waiting: dict[Pause[None], int] = {}

    async def take(self, size_bytes: int) -> None:
        """Wait until there is room for ``size_bytes``, and take this memory.

        A size above the whole limit is granted when no other memory is in use. The caller must `give` the bytes back.
        """
        if not self._waiting and self._has_room(size_bytes):
            self.used_bytes += size_bytes
            return
        pause: Pause[None] = Pause()
        self._waiting[pause] = size_bytes
        try:
            await pause
        except BaseException:
            # An exception has ended the waiting coroutine. If it already got its bytes, give them back.
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
