"""Sends the TLS alert of a failed handshake, from which the client learns the reason.

OpenSSL only buffers the alert, and asyncio and uvloop close the connection without sending what is buffered. The TLS context of a
listener therefore creates connections that write the alert to the socket themselves.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from contextlib import suppress

INTERNAL_ERROR = b"\x15\x03\x03\x00\x02\x02\x50"
"""The fatal alert ``internal_error`` as a record of TLS (RFC 8446, section 6.2), which Java sends for data that are not TLS."""


class Below:
    """The transport below the TLS of one connection, to which a failed handshake writes its alert. None after the handshake."""

    __slots__ = ("transport",)

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport: asyncio.Transport | None = transport

    def write(self, data: bytes) -> None:
        """Write to the socket at once, because the event loop closes the connection and discards what is buffered."""
        transport = self.transport
        if transport is not None and not transport.is_closing() and not transport.get_write_buffer_size():
            with suppress(OSError):
                os.write(transport.get_extra_info("socket").fileno(), data)


class AlertingObject(ssl.SSLObject):
    """The TLS state of one accepted connection."""

    below: Below | None
    outgoing: ssl.MemoryBIO
    has_answered: bool
    """Whether OpenSSL has answered the ClientHello."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self.has_answered |= bool(self.outgoing.pending)
            raise
        except ssl.SSLError as error:
            if self.below is not None:
                self.below.write(self.outgoing.read() or self._alert_of_no_tls(error))
            raise

    def _alert_of_no_tls(self, error: ssl.SSLError) -> bytes:
        """The alert for data that are not TLS, for which OpenSSL makes no alert; empty if the client has closed the connection or
        has sent an alert itself."""
        is_ended = isinstance(error, ssl.SSLEOFError) or "_ALERT_" in (error.reason or "")
        return b"" if self.has_answered or is_ended else INTERNAL_ERROR


class ServerContext(ssl.SSLContext):
    """The TLS context of a listener. Each of its connections is an `AlertingObject`."""

    sslobject_class = AlertingObject

    def __init__(self, protocol: int) -> None:
        super().__init__()
        self.starting: deque[Below] = deque()
        """Connections whose `start_tls` has not called `wrap_bio` yet. It calls `wrap_bio` once per connection, in this order."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, AlertingObject)
        made.has_answered = False
        made.below, made.outgoing = self.starting.popleft() if self.starting else None, outgoing
        return made
