"""An HTTP server for pages in a process without a broker, such as the console of a remote cluster.

It is protected like the control API's pages: requests for data need the token in the fragment of the page's address, the headers
Host and Origin are checked, and the number of connections is bounded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ottla.addresses import LOOPBACK, joined_address
from ottla.control.command import CommandRefused
from ottla.control.page_requests import PageRequests, check_token, error_document, json_response, path_of
from ottla.control.pages import Pages, Reach
from ottla.http.http_server import BoundedHttpServer
from ottla.random_tokens import random_token

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

HOST: Final = "127.0.0.1"
"""Default address of a page server: only programs on this machine can connect."""


class PageServer:
    """Serves ``pages`` on a port of ``host`` from `serve` until `close`, with its own token.

    ``reach`` creates a page's `Reach` from the event that is set when the server closes, and a function that returns whether the
    browser has closed the connection. Raises OSError if the port cannot be bound.

    `url` is the address for a browser on this machine, also if the server listens on all interfaces.
    """

    def __init__(
        self,
        pages: Pages,
        reach: Callable[[threading.Event, Callable[[], bool]], Reach],
        port: int = 0,
        host: str = HOST,
    ) -> None:
        self._pages = pages
        self._token = random_token()
        self._is_closed = threading.Event()
        self._requests = PageRequests(
            pages=pages,
            check_access=lambda environ: check_token(environ, self._token),
            reach=lambda has_left: reach(self._is_closed, has_left),
        )
        self._server = BoundedHttpServer(host, port, self._answer)
        address = joined_address((LOOPBACK.get(host, host), self._server.port))
        self.url = f"http://{address}{pages.prefix}#token={self._token}"

    def serve(self) -> None:
        self._server.serve()

    def close(self) -> None:
        self._is_closed.set()
        self._server.close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            if not path_of(environ).startswith(self._pages.prefix):
                raise CommandRefused(404, f"unknown path {path_of(environ)}; the console is at {self._pages.prefix}")
            if environ["REQUEST_METHOD"] != "POST":
                return self._requests.show(environ, start_response)
            return json_response(200, self._requests.command(environ), start_response)
        except CommandRefused as refused:
            return json_response(refused.status, error_document(str(refused)), start_response)
