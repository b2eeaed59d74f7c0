"""The control API of a controller in another process than its brokers. Its only command lists requests that ACLs have denied: the
controller authorizes requests that brokers forward, so only the controller knows which it denied. Only the brokers' control APIs
have commands for faults, the clock and the history."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.settings import Settings
from ottla.broker.loop.env import why_not_bound
from ottla.broker.loop.lifecycle import Lifecycle, count_from_thread
from ottla.broker.network.listener import Endpoint
from ottla.control.command import CommandRefused
from ottla.control.http_api import READ_TIMEOUT_S
from ottla.control.page_requests import REASONS, check_token
from ottla.http.http_server import BoundedHttpServer
from ottla.random_tokens import random_token

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

DENIALS = "/v1/denials"


class Authorizer(Protocol):
    def denials(self) -> Sequence[Any]:
        """The newest denials since the controller's start, newest first."""
        ...


class Controller(Protocol):
    """The attributes of a controller that its control API uses."""

    @property
    def authorizer(self) -> Authorizer: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def lifecycle(self) -> Lifecycle: ...


class ControllerApi:
    """The HTTP server of a controller's control API, on a free port. It responds after `serve`. Raises `ConfigError` if no port can
    be bound.

    ``own_names`` are the brokers' advertised host names (`listener.advertised_hosts`), which the header Host may contain.
    """

    pages_url: str | None = None

    def __init__(self, controller: Controller, own_names: frozenset[str] = frozenset()) -> None:
        settings = controller.settings
        self._controller = controller
        self._loop = asyncio.get_running_loop()
        self._host = settings.ottla_control_host
        self.token = settings.ottla_control_token or random_token()
        try:
            self._server = BoundedHttpServer(self._host, 0, self._answer, self._count_bug, own_names=own_names)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot open the controller's control port on {self._host}: {why_not_bound(error)}") from error
        self.url = f"http://{Endpoint('control', self._host, self._server.port)}"

    def _count_bug(self) -> None:
        count_from_thread(self._loop, lambda: self._controller.lifecycle)

    def serve(self) -> None:
        self._server.serve()

    def close(self) -> None:
        self._server.close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            check_token(environ, self.token)
            path, method = str(environ["PATH_INFO"]), str(environ["REQUEST_METHOD"])
            if path != DENIALS:
                raise CommandRefused(404, f"unknown path {path}; a controller has only {DENIALS}; use the control API of a broker")
            if method != "GET":
                raise CommandRefused(405, f"{path} does not accept {method}; use GET")
            status, answer = 200, msgspec.json.encode({"denials": self._denials()})
        except CommandRefused as refused:
            status, answer = refused.status, msgspec.json.encode({"error": str(refused)})
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(answer) + 1))]
        start_response(f"{status} {REASONS[status]}", headers)
        return [answer + b"\n"]

    def _denials(self) -> Sequence[Any]:
        async def read() -> Sequence[Any]:
            return self._controller.authorizer.denials()

        done = asyncio.run_coroutine_threadsafe(read(), self._loop)
        try:
            return done.result(READ_TIMEOUT_S)
        except TimeoutError:
            done.cancel()
            raise CommandRefused(409, f"the controller is busy and did not answer within {READ_TIMEOUT_S:g} s; try again") from None
