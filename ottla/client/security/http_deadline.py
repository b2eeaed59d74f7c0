"""One deadline for a whole HTTP exchange: connecting, TLS, and the response with its headers, also after redirects.

The TLS handshake, and each write of the request, may take as long as was left when the connection was opened, so a server that
reads slowly may delay the end of the exchange.

The timeout of urllib applies to each read of the socket, so a server that sends single bytes could otherwise occupy a thread for
hours. Only the resolution of the host's name is not limited here, but by the resolver's own timeouts.
"""

from __future__ import annotations

import io
import socket
import urllib.request
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any, Final

TOO_LONG: Final = "the response takes too long"


class ExchangeDeadline:
    """The time until which an exchange must be complete, on the clock ``now_s`` in seconds."""

    def __init__(self, timeout_s: float, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._until_s = now_s() + timeout_s

    def left_s(self) -> float:
        """Return the remaining time in seconds. Raises TimeoutError if the deadline has passed."""
        left_s = self._until_s - self._now_s()
        if left_s <= 0:
            raise TimeoutError(TOO_LONG)
        return left_s

    def opener(self, *handlers: Any) -> urllib.request.OpenerDirector:
        """Return an opener of URLs with this deadline, for one exchange. Its errors are those of urllib."""
        return urllib.request.build_opener(_Http(self), _Https(self), *handlers)

    def connect(self, address: tuple[str, int], timeout: float, source: Any = None) -> socket.socket:
        """Connect to the first address of a host that accepts the connection. Raises OSError."""
        refused: OSError = OSError("the host has no address")
        for *_, resolved in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            try:
                connected = socket.create_connection((str(resolved[0]), int(resolved[1])), self.left_s(), source)
            except OSError as error:
                refused = error
            else:
                # TLS uses this timeout for its whole handshake.
                try:
                    connected.settimeout(self.left_s())
                except TimeoutError:
                    connected.close()
                    raise
                return connected
        raise refused

    def connection(self, kind: Callable[..., HTTPConnection], host: str, **how: Any) -> HTTPConnection:
        """Create the connection that urllib uses for a request."""
        made = kind(host, **how)
        made._create_connection = self.connect  # type: ignore[attr-defined]
        made.response_class = self._response  # type: ignore[assignment]
        return made

    def _response(self, connected: socket.socket, **how: Any) -> HTTPResponse:
        return HTTPResponse(_Readable(connected, self), **how)  # type: ignore[arg-type]


class _Readable:
    """The part of a socket that `HTTPResponse` uses."""

    def __init__(self, connected: socket.socket, deadline: ExchangeDeadline) -> None:
        self._connected, self._deadline = connected, deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_LimitedReads(self._connected, self._deadline))


class _LimitedReads(io.RawIOBase):
    """Reads from a socket until the deadline."""

    def __init__(self, connected: socket.socket, deadline: ExchangeDeadline) -> None:
        # This file keeps the socket open after the connection has closed it.
        self._connected, self._raw, self._deadline = connected, connected.makefile("rb", buffering=0), deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._connected.settimeout(self._deadline.left_s())
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            raise TimeoutError(TOO_LONG) from None

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: ExchangeDeadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(partial(self._deadline.connection, HTTPConnection), request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: ExchangeDeadline) -> None:
        # The constructor of HTTPSHandler would load the certificates of all authorities, also for a URL without TLS.
        urllib.request.AbstractHTTPHandler.__init__(self)
        self._deadline = deadline

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(partial(self._deadline.connection, HTTPSConnection), request)
