"""Cuts the bytes of a connection into frames, without a socket.

All connections of a broker receive into one shared buffer. The event loop reads a socket and processes the bytes without a pause,
so the buffer is free again when the next socket is read. Only a connection with an unfinished frame, or with frames that must wait,
has its own buffer, until it has no unread bytes left. An idle connection has no buffer.
"""

from __future__ import annotations

from mmap import mmap
from struct import Struct

RECEIVE_BYTES = 1 << 18
"""Size in bytes of the shared buffer, which is the maximum of one socket read."""
OWN_START_BYTES = 1 << 12
"""Minimum size in bytes of a connection's own buffer."""
GROWTH = 4
"""Maximum size of a connection's own buffer as a multiple of the unread bytes: a declared frame size must not allocate memory."""
RESERVE_FROM_BYTES = 1 << 20
"""A buffer with more bytes than this reserves addresses for its whole frame, and gets memory as bytes arrive, so it is never
copied."""
SPARE_BUFFER_BYTES = 2 << 20
"""Maximum size in bytes of a freed buffer that is kept for another connection."""
SPARES_BYTES = 8 << 20
"""Maximum total size in bytes of freed buffers that are kept for other connections."""

_SIZE = Struct(">i")
SIZE_BYTES = _SIZE.size


class FrameSizeError(Exception):
    """A frame declares a size that is not allowed. The following bytes of the connection cannot be read."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"a frame has an invalid size of {size_bytes} bytes")
        self.size_bytes = size_bytes


class ReceiveBuffers:
    """The shared receive buffer, and spare buffers for connections that need their own."""

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
        # An anonymous mapping returns its memory to the operating system as soon as it is freed, unlike memory of the heap.
        return memoryview(bytearray(size_bytes) if size_bytes < RECEIVE_BYTES else mmap(-1, size_bytes))

    def give(self, buffer: memoryview) -> None:
        """Take back a buffer of a connection. No view of the buffer may be in use."""
        size_bytes = len(buffer)
        if RECEIVE_BYTES <= size_bytes <= SPARE_BUFFER_BYTES and self._spares_bytes + size_bytes <= SPARES_BYTES:
            self._spares.append(buffer)
            self._spares_bytes += size_bytes

    def detach(self) -> memoryview:
        """Return the shared buffer for the caller's own use, and create a new shared buffer."""
        buffer, self.shared = self.shared, memoryview(bytearray(RECEIVE_BYTES))
        return buffer


class Frames:
    """The unread bytes of one connection. ``own_bytes`` is the usable size of its own buffer; 0 without an own buffer."""

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

    def limit(self, max_frame_bytes: int) -> None:
        """Set the maximum size of the frames that follow."""
        self._max_frame_bytes = max_frame_bytes

    def room(self) -> memoryview:
        """The buffer for the next bytes of the socket."""
        return self._buffers.shared if self._own is None else self._own[self._end : self.own_bytes]

    def received(self, count: int) -> None:
        """Record that ``count`` bytes were written into `room`."""
        self._end += count

    def next(self) -> memoryview | None:
        """The next frame without its size field; None if it has not arrived completely.

        The view is valid until `settle`, which must be called before another connection receives bytes, unless `keep` was called.
        Raises `FrameSizeError`.
        """
        start = self._start
        if self._end - start < SIZE_BYTES:
            return None
        view = self._buffers.shared if self._own is None else self._own
        (size,) = _SIZE.unpack_from(view, start)
        if size <= 0 or size > self._max_frame_bytes:
            raise FrameSizeError(size)
        start += SIZE_BYTES
        if self._end - start < size:
            return None
        self._start = start + size
        return view[start : start + size]

    def put_back(self, frame: memoryview) -> None:
        """Undo the last `next`: the next call returns the same frame again."""
        self._start -= SIZE_BYTES + len(frame)

    def keep(self) -> None:
        """Keep the frames of `next` unchanged until `settle`, while other connections receive bytes."""
        if self._own is None:
            self._own = self._buffers.detach()
            self.own_bytes = len(self._own)

    def needed_bytes(self) -> int:
        """The size of the own buffer that the connection needs for its unread bytes; 0 for no buffer.

        The size grows with the bytes that have arrived, so that a declared frame size alone allocates nothing.
        """
        unread = self._end - self._start
        if not unread:
            return 0
        # The buffer is larger than the unread bytes, so that the next read always has room.
        wanted = max(min(max(unread + 1, self._frame_bytes()), GROWTH * unread), OWN_START_BYTES)
        own = self.own_bytes
        # Keep an own buffer that has room for more bytes, unless it is far too large.
        return own if unread < own <= GROWTH * wanted else wanted

    def _frame_bytes(self) -> int:
        """The size of the unread frame with its size field; 0 if the size field has not arrived."""
        if self._end - self._start < SIZE_BYTES:
            return 0
        view = self._buffers.shared if self._own is None else self._own
        (size,) = _SIZE.unpack_from(view, self._start)
        return SIZE_BYTES + int(min(size, self._max_frame_bytes))

    def settle(self, *, may_grow: bool = True) -> None:
        """Release all frames that `next` has returned, and move the unread bytes into a buffer of `needed_bytes`.

        Without ``may_grow`` the buffer has room for the unread bytes and little more.
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
        """Free the buffer of a connection that was closed."""
        if self._own is not None:
            self._buffers.give(self._own)
            self._own = None
        self._start = self._end = self.own_bytes = 0
