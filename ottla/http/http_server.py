"""An HTTP server for a bounded number of clients, each with a bounded time for its request.

The server serves the metrics, the control API (`ottla.control`) with the console, and the schema registry. Requests are small; a
browser keeps a connection for each open page. The server has its own threads, so that it responds while the broker's event loop is
busy or stopped. The HTTP code is imported when the first client connects, so that it does not delay the broker's start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Mapping
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
    socket,
)
from typing import TYPE_CHECKING, Any, Final

from ottla.addresses import LOOPBACK

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

MAX_CONNECTIONS: Final = 16
"""Default maximum number of connections. Each needs a thread and a descriptor."""
BACKLOG: Final = 128
"""Number of connections that the operating system keeps until they are accepted. Further clients wait and retry."""
MAX_WAIT_S: Final = 2.0
"""Time in s that a new connection waits for another connection to end. Then its request gets the response 503."""
RETRY_AFTER_S: Final = 1
"""Seconds in the header ``Retry-After`` of the response 503."""
CLOSE_TIMEOUT_S: Final = 5.0
"""Time in s that `BoundedHttpServer.close` waits for the thread that accepts connections."""
ACCEPT_RETRY_S: Final = 0.1
"""Time in s until the next attempt to accept a client, for example if the process has no free descriptor."""

ErrorFields = Callable[[int, str], dict[str, object]]
"""A function that returns the fields of an error's JSON, given its HTTP status and one line for a person."""


def default_error_fields(status: int, text: str) -> dict[str, object]:
    return {"error": text}


class BoundedHttpServer:
    """Serves ``app`` from `serve` until `close`. Connections accepted before `serve` wait until it runs.

    The constructor raises OSError or ValueError for an address that cannot be bound. A connection beyond ``max_connections`` gets
    the response 503 unless another connection ends within `MAX_WAIT_S`. At most ``max_connections`` connections get this response
    at the same time; further connections are closed.

    ``own_names`` are names of the broker, in lower case, that the Host header of a request may have besides addresses, see
    `host_header`; None accepts any name, for responses that any site may read. ``on_bug`` is called on a thread of the server for
    each exception that ``app`` raises. ``error_fields`` are the JSON fields of responses to requests that do not reach ``app``.
    """

    def __init__(
        self,
        host: str,
        port: int,
        app: WSGIApplication,
        on_bug: Callable[[], None] = lambda: None,
        *,
        own_names: Container[str] | None = (),
        max_connections: int = MAX_CONNECTIONS,
        error_fields: ErrorFields = default_error_fields,
    ) -> None:
        family = AF_INET6 if ":" in host else AF_INET
        takes_both = host == "::" and has_dualstack_ipv6()
        try:
            # Resolve the host first, because `create_server` would lose the zone of a link-local address.
            address = getaddrinfo(host or None, port, family, SOCK_STREAM, flags=AI_PASSIVE)[0][4]
            self._socket = create_server(address, family=family, backlog=BACKLOG, dualstack_ipv6=takes_both)
        except OverflowError as error:
            raise ValueError(str(error)) from error
        self._address = self._socket.getsockname()
        self.port: int = self._address[1]
        self._host = host
        self._own_names = own_names
        self._app = app
        self._on_bug = on_bug
        self._max_connections = max_connections
        self._error_fields = error_fields
        self._clients: set[socket] = set()
        self._refused: set[socket] = set()
        self._free = threading.Semaphore(max_connections)
        # Set after a connection has waited in vain: further connections are refused without a wait until a connection ends.
        self._is_full = False
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    def serve(self) -> None:
        self._thread.start()

    def _serve(self) -> None:
        while not self._is_closed.is_set():
            try:
                client, _ = self._socket.accept()
            except OSError:
                self._is_closed.wait(ACCEPT_RETRY_S)
                continue
            if self._free.acquire(timeout=0 if self._is_full else MAX_WAIT_S):
                self._clients.add(client)
                self._start(client, self._check_host)
            elif len(self._refused) < self._max_connections:
                self._is_full = True
                self._refused.add(client)
                self._start(client, self._refuse)
            else:
                client.close()

    def _start(self, client: socket, check: Callable[[Mapping[str, Any]], None]) -> None:
        try:
            threading.Thread(target=self._serve_client, args=(client, check), daemon=True).start()
        except RuntimeError:
            # Close the connection, because the operating system cannot start another thread.
            self._end(client)

    def _serve_client(self, client: socket, check: Callable[[Mapping[str, Any]], None]) -> None:
        from ottla.http.http_requests import HttpExchange

        try:
            HttpExchange(client, self._app, self._on_bug, self._error_fields, check).run()
        finally:
            self._end(client)

    def _check_host(self, environ: Mapping[str, Any]) -> None:
        if self._own_names is None:
            return
        from ottla.http.host_header import check_host

        check_host(environ.get("HTTP_HOST", ""), self._host, self._own_names)

    def _refuse(self, environ: Mapping[str, Any]) -> None:
        from ottla.http.http_requests import HttpRefused

        self._check_host(environ)
        text = f"{self._max_connections} connections are open, which is the maximum; close one or try again later"
        raise HttpRefused(503, text, {"Retry-After": str(RETRY_AFTER_S)})

    def _end(self, client: socket) -> None:
        client.close()
        if client in self._clients:
            self._clients.remove(client)
            self._is_full = False
            self._free.release()
        self._refused.discard(client)

    def close(self) -> None:
        self._is_closed.set()
        if self._thread.ident is not None:
            host = getnameinfo(self._address, NI_NUMERICHOST | NI_NUMERICSERV)[0]
            with suppress(OSError):
                create_connection((LOOPBACK.get(host, host), self.port), CLOSE_TIMEOUT_S).close()
            self._thread.join(CLOSE_TIMEOUT_S)
        self._socket.close()
