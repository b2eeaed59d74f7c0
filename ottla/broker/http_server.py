"""An HTTP server for a bounded number of clients, each with a bounded time.

The server serves the metrics, and `ottla.control`, by which tests and tools steer the broker: clients that send few and small
requests. It has threads of its own, so that it answers while the event loop is busy or stopped. The HTTP code is imported when the
first client connects, so that a broker without such clients starts as fast as one without the server.
"""

from __future__ import annotations

import select
import threading
from contextlib import suppress
from socket import AF_INET, AF_INET6, create_connection, create_server
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from ottla.broker.http_requests import RequestServer

MAX_CONNECTIONS: Final = 16
"""How many connections are served at once. Each needs a thread and a descriptor. Further connections are closed at once."""
CLOSE_TIMEOUT_S: Final = 5.0
"""How long `BoundedHttpServer.close` waits for the thread that accepts connections, in s."""
POLL_INTERVAL_S: Final = 3_600.0
"""How often that thread checks by itself whether it must end, in s. `BoundedHttpServer.close` wakes it at once."""
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class BoundedHttpServer:
    """Serves ``app`` until `close`. The constructor raises OSError or ValueError for an address that cannot be bound."""

    def __init__(self, host: str, port: int, app: WSGIApplication) -> None:
        family = AF_INET6 if ":" in host else AF_INET
        try:
            self._socket = create_server((host, port), family=family, backlog=MAX_CONNECTIONS)
        except OverflowError as error:
            raise ValueError(str(error)) from error
        self._address = self._socket.getsockname()
        self.port: int = self._address[1]
        self._app = app
        self._server: RequestServer | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        select.select([self._socket], [], [])
        if self._is_closed:
            return
        from ottla.broker.http_requests import RequestServer

        self._server = RequestServer(self._socket, self._app, MAX_CONNECTIONS)
        if not self._is_closed:
            self._server.serve_forever(POLL_INTERVAL_S)

    def close(self) -> None:
        self._is_closed = True
        ending = None
        if self._server is not None:
            ending = threading.Thread(target=self._server.shutdown, daemon=True)
            ending.start()
        host = str(self._address[0])
        with suppress(OSError):
            create_connection((_LOOPBACK.get(host, host), self.port), CLOSE_TIMEOUT_S).close()
        for thread in filter(None, (ending, self._thread)):
            thread.join(CLOSE_TIMEOUT_S)
        self._socket.close()
