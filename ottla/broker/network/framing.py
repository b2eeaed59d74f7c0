"""Cuts the bytes of a connection into frames, without a socket.

All connections of a broker receive into one shared buffer: the event loop reads a socket and hands the bytes over in one
stretch, so the buffer is free again when the next socket is read. Only a connection with an unfinished frame, or with
frames that must wait, has a buffer of its own, and gives it back when it has caught up. An idle connection costs none.
"""

from __future__ import annotations

from mmap import mmap
from struct import Struct

RECEIVE_BYTES = 1 << 18
"""Size of the shared buffer: the most that one read of a socket takes."""
OWN_START_BYTES = 1 << 12
"""A buffer of a connection's own begins at least this large."""
GROWTH = 4
"""A buffer grows to this many times what has arrived at most, never by the declared size of a frame alone."""
RESERVE_FROM_BYTES = 1 << 20
"""A buffer that grows beyond this gets addresses for its whole frame, and memory as bytes arrive: it is not copied again."""
SPARE_BUFFER_BYTES = 2 << 20
"""Buffers up to this size are kept for the next connection that needs one."""
SPARES_BYTES = 8 << 20
"""All spare buffers together hold no more than this."""

_SIZE = Struct(">i")
SIZE_BYTES = _SIZE.size


class FrameSizeError(Exception):
    """A frame declares a size that is not taken; nothing behind it can be read."""


class ReceiveBuffers:
    """The shared receive buffer, and spare buffers for connections that need one of their own."""

    __slots__ = ("_spares", "_spares_bytes", "shared")

    def __init__(self) -> None:
        self.shared = memoryview(bytearray(RECEIVE_BYTES))
        self._spares: list[memoryview] = []
        self._spares_bytes = 0

    def take(self, size_bytes: int) -> memoryview:
        """A buffer of at least ``size_bytes``."""
        for at in range(len(self._spares) - 1, -1, -1):
            if size_bytes <= len(self._spares[at]) <= 4 * size_bytes:
                spare = self._spares.pop(at)
                self._spares_bytes -= len(spare)
                return spare
        # A mapping of its own goes back to the system as soon as it is let go, wherever other memory lies.
        return memoryview(bytearray(size_bytes) if size_bytes < RECEIVE_BYTES else mmap(-1, size_bytes))

    def give(self, buffer: memoryview) -> None:
        """Take back a buffer that nobody has a view of any more."""
        size_bytes = len(buffer)
        if RECEIVE_BYTES <= size_bytes <= SPARE_BUFFER_BYTES and self._spares_bytes + size_bytes <= SPARES_BYTES:
            self._spares.append(buffer)
            self._spares_bytes += size_bytes

    def detach(self) -> memoryview:
        """The shared buffer becomes the caller's own, and another takes its place."""
        buffer, self.shared = self.shared, memoryview(bytearray(RECEIVE_BYTES))
        return buffer


class Frames:
    """The unread bytes of one connection. ``own_bytes`` is what its own buffer may take in memory, 0 while it has none."""

    __slots__ = ("_buffers", "_end", "_max_frame_bytes", "_own", "_start", "own_bytes")

    def __init__(self, buffers: ReceiveBuffers, max_frame_bytes: int) -> None:
        self._buffers = buffers
        self._max_frame_bytes = max_frame_bytes
        self._own: memoryview | None = None
        self.own_bytes = 0
        self._start = 0
        self._end = 0

    @property
    def unread_bytes(self) -> int:
        return self._end - self._start

    def room(self) -> memoryview:
        """Where the next bytes of the socket go."""
        return self._buffers.shared if self._own is None else self._own[self._end : self.own_bytes]

    def received(self, count: int) -> None:
        """``count`` bytes were put into `room`."""
        self._end += count

    def next(self) -> memoryview | None:
        """The next whole frame without its size, None where it has not all arrived.

        The view is good until `settle`, or until the frame after the next `keep` is settled. Raises `FrameSizeError`.
        """
        start = self._start
        if self._end - start < SIZE_BYTES:
            return None
        view = self._buffers.shared if self._own is None else self._own
        (size,) = _SIZE.unpack_from(view, start)
        if size <= 0 or size > self._max_frame_bytes:
            raise FrameSizeError(f"a frame of {size} bytes")
        start += SIZE_BYTES
        if self._end - start < size:
            return None
        self._start = start + size
        return view[start : start + size]

    def put_back(self, frame: memoryview) -> None:
        """The frame that `next` gave last is not handled yet: `next` gives it again."""
        self._start -= SIZE_BYTES + len(frame)

    def keep(self) -> None:
        """What `next` gave stays as it is until `settle`, whatever other connections receive meanwhile."""
        if self._own is None:
            self._own = self._buffers.detach()
            self.own_bytes = len(self._own)

    def needed_bytes(self) -> int:
        """How large a buffer of its own the connection needs now for what is unread; 0 for none.

        Grows with what has arrived, so that a declared size alone allocates nothing.
        """
        unread = self._end - self._start
        if not unread:
            return 0
        # One byte more than has arrived, so that there is always room to receive into.
        wanted = max(min(max(unread + 1, self._frame_bytes()), GROWTH * unread), OWN_START_BYTES)
        own = self.own_bytes
        # An own buffer with room behind what has arrived serves as it is, unless most of it is in vain.
        return own if unread < own <= GROWTH * wanted else wanted

    def _frame_bytes(self) -> int:
        """What the unread frame takes with its size, as far as it is declared yet."""
        if self._end - self._start < SIZE_BYTES:
            return 0
        view = self._buffers.shared if self._own is None else self._own
        (size,) = _SIZE.unpack_from(view, self._start)
        return SIZE_BYTES + int(min(size, self._max_frame_bytes))

    def settle(self, *, may_grow: bool = True) -> None:
        """Frames given so far are done with: make room for what comes, in no more memory than it needs.

        Without ``may_grow`` there is room for what has arrived, and for little more.
        """
        own = self._own
        unread = self._end - self._start
        if own is None and not unread:
            self._start = self._end = 0
            return
        needed = self.needed_bytes() if may_grow else max(unread + 1, OWN_START_BYTES)
        if not unread:
            self._own = None
        elif own is not None and needed == self.own_bytes:
            if self._start:
                own[:unread] = bytes(own[self._start : self._end])
        elif own is None or self._start or not self.own_bytes < needed <= len(own):
            source = self._buffers.shared if own is None else own
            self._own = self._buffers.take(needed if needed <= RESERVE_FROM_BYTES else max(needed, self._frame_bytes()))
            self._own[:unread] = source[self._start : self._end]
        if own is not None and self._own is not own:
            self._buffers.give(own)
        self._start, self._end, self.own_bytes = 0, unread, needed if unread else 0

    def discard(self) -> None:
        """The connection is gone."""
        if self._own is not None:
            self._buffers.give(self._own)
            self._own = None
        self._start = self._end = self.own_bytes = 0
