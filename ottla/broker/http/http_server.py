"""An HTTP server for a bounded number of clients, each with a bounded time for its request.

The server serves the metrics and the control API (`ottla.control`), with which tests and tools control the broker, and the console
for browsers. Requests are small; a browser keeps a connection for each open page. The server has its own threads, so that it
responds while the event loop is busy or stopped. The HTTP code is imported when the first client connects, so that a broker without
such clients starts as fast as one without the server.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from contextlib import suppress
from socket import (
    AF_INET,
    AF_INET6,
    AI_PASSIVE,
    NI_NUMERICHOST,
    NI_NUMERICSERV,
    SOCK_STREAM,
    create_connection,
    create_server,
    getaddrinfo,
    getnameinfo,
    has_dualstack_ipv6,
)
from typing import TYPE_CHECKING, Final

from ottla.addresses import LOOPBACK

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from ottla.broker.http.http_requests import RequestServer

MAX_CONNECTIONS: Final = 16
"""Maximum number of connections served at once. Each needs a thread and a descriptor. Further connections are closed at once."""
CLOSE_TIMEOUT_S: Final = 5.0
"""Time in s that `BoundedHttpServer.close` waits for the thread that accepts connections."""
POLL_INTERVAL_S: Final = 3_600.0
"""Interval in s at which that thread checks by itself whether it must end. `BoundedHttpServer.close` wakes it at once."""


class BoundedHttpServer:
    """Serves ``app`` from `serve` until `close`. Connections accepted before `serve` wait until it runs.

    The constructor raises OSError or ValueError for an address that cannot be bound.

    ``on_bug`` is called on a thread of the server for each exception that ``app`` raises.
    """

    def __init__(self, host: str, port: int, app: WSGIApplication, on_bug: Callable[[], None] = lambda: None) -> None:
        family = AF_INET6 if ":" in host else AF_INET
        takes_both = host == "::" and has_dualstack_ipv6()
        try:
            # Resolve the host first, because `create_server` would lose the zone of a link-local address.
            address = getaddrinfo(host or None, port, family, SOCK_STREAM, flags=AI_PASSIVE)[0][4]
            self._socket = create_server(address, family=family, backlog=MAX_CONNECTIONS, dualstack_ipv6=takes_both)
        except OverflowError as error:
            raise ValueError(str(error)) from error
        self._address = self._socket.getsockname()
        self.port: int = self._address[1]
        self._app = app
        self._on_bug = on_bug
        self._server: RequestServer | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    def serve(self) -> None:
        self._thread.start()

    def _serve(self) -> None:
        select.select([self._socket], [], [])
        if self._is_closed:
            return
        from ottla.broker.http.http_requests import RequestServer

        self._server = RequestServer(self._socket, self._app, MAX_CONNECTIONS, self._on_bug)
        if not self._is_closed:
            self._server.serve_forever(POLL_INTERVAL_S)

    def close(self) -> None:
        self._is_closed = True
        if self._thread.ident is not None:
            self._end_thread()
        self._socket.close()

    def _end_thread(self) -> None:
        ending = None
        if self._server is not None:
            ending = threading.Thread(target=self._server.shutdown, daemon=True)
            ending.start()
        host = getnameinfo(self._address, NI_NUMERICHOST | NI_NUMERICSERV)[0]
        with suppress(OSError):
            create_connection((LOOPBACK.get(host, host), self.port), CLOSE_TIMEOUT_S).close()
        for thread in filter(None, (ending, self._thread)):
            thread.join(CLOSE_TIMEOUT_S)
