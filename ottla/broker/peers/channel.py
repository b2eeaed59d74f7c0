"""The transport of one connection to a peer: splits received bytes into frames, and sends frames."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from ottla.broker.network.framing import Frames, FrameSizeError, ReceiveBuffers


class ChannelOwner(Protocol):
    """Receives the events of a channel."""

    def opened(self, channel: Channel) -> None: ...

    def received(self, channel: Channel, frame: memoryview) -> None:
        """Called with each frame, without the size before it. The view is valid only during the call."""
        ...

    def lost(self, channel: Channel, reason: str) -> None:
        """Called once when the connection is lost; no frame follows."""
        ...


class Channel(asyncio.BufferedProtocol):
    """One connection to a peer, created for each attempt to connect. After `close` its owner is no longer called."""

    def __init__(self, owner: ChannelOwner, buffers: ReceiveBuffers, max_frame_bytes: int) -> None:
        self._owner: ChannelOwner | None = owner
        self.error: Exception | None = None
        """The error by which the connection was lost; None if this node or the peer closed it."""
        self._frames = Frames(buffers, max_frame_bytes)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._owner is None:
            self._transport.abort()
        else:
            self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.error = exc
        self._frames.discard()
        self._end(str(exc) if exc is not None and str(exc) else "the peer closed the connection")

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        try:
            while self._owner is not None and (frame := self._frames.next()) is not None:
                self._owner.received(self, frame)
        except FrameSizeError as error:
            self.fail(str(error))
        if self._owner is None:
            self._frames.discard()
        else:
            self._frames.settle()

    def write(self, data: bytes) -> None:
        """Send a frame, which begins with its size. Does nothing on a lost connection."""
        if self._transport is not None and self._owner is not None:
            self._transport.write(data)

    def close(self) -> None:
        """End the connection immediately, without calling the owner."""
        self._owner = None
        if self._transport is not None:
            self._transport.abort()

    def fail(self, reason: str) -> None:
        """End the connection immediately, and call `ChannelOwner.lost`."""
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, reason: str) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.lost(self, reason)
