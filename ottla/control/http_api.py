"""The HTTP server of the control API. Requests contain a token; requests and responses are JSON.

The server has its own threads, so that it responds while `LoopPause` blocks the event loop. Commands run on the event loop.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from ottla.broker.config.definitions import ConfigError
from ottla.broker.loop.env import why_not_bound
from ottla.broker.loop.lifecycle import count_from_thread
from ottla.broker.network.listener import Endpoint, advertised_hosts
from ottla.control.command import Command, CommandRefused, ControlledBroker
from ottla.control.commands import COMMANDS
from ottla.control.page_requests import (
    PageRequests,
    check_token,
    error_document,
    has_token,
    json_response,
    path_of,
)
from ottla.control.pages import NO_PAGES, Pages, Reach, read_only_token
from ottla.http.http_server import MAX_CONNECTIONS, BoundedHttpServer
from ottla.protocol.steps import Pause, Steps
from ottla.random_tokens import random_token
from ottla.storage.filesystem import described
from ottla.storage.identity import DirectoryError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from ottla.control.kept_access import Access


COMMAND_TIMEOUT_S = 60.0
READ_TIMEOUT_S = 3.0
"""Timeout, in seconds, of a read for pages or metrics on the event loop, which may be busy. The console tries again."""
PAUSE_TIMEOUT_S = 5.0
"""Maximum time, in seconds, until a busy event loop pauses."""
SIGNAL_CHECK_S = 0.1
MAX_WAITING = MAX_CONNECTIONS // 2
"""Maximum number of requests that wait. The other half of the connections is reserved for requests that may end a wait."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
PAUSE, RESUME = "/v1/pause", "/v1/resume"
"""The paths of the commands that do not run on the event loop."""
METRICS = "/metrics"
T = TypeVar("T")


class LoopPause:
    """Blocks the event loop, so that the whole broker pauses, as if the machine were suspended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # A queue instead of a `threading.Event`: `SimpleQueue.put` is reentrant, so a signal handler may call it at any point.
        self._let_go: SimpleQueue[None] | None = None

    @property
    def is_held(self) -> bool:
        return self._let_go is not None

    def hold(self) -> None:
        """Block the event loop, and return when it is blocked. Raises `CommandRefused` after `PAUSE_TIMEOUT_S`."""
        if self._let_go is not None:
            return
        held, let_go = threading.Event(), SimpleQueue[None]()

        def stand_still() -> None:
            with _fed_by_signals(let_go):
                held.set()
                _wait_for_item(let_go)
            if self._let_go is let_go:
                self._let_go = None

        self._loop.call_soon_threadsafe(stand_still)
        self._let_go = let_go
        if not held.wait(PAUSE_TIMEOUT_S):
            self.let_go()
            raise CommandRefused(409, f"the broker is busy and could not be paused within {PAUSE_TIMEOUT_S:.0f} s; try again")

    def let_go(self) -> None:
        if self._let_go is not None:
            self._let_go.put(None)
            self._let_go = None


def _wait_for_item(queue: SimpleQueue[None]) -> None:
    """Wait until the queue has an item, which a signal handler may put.

    `get` has a timeout, because Python calls the handler of a signal that arrives just before `get` only after `get` has returned.
    """
    while True:
        with suppress(Empty):
            return queue.get(timeout=SIGNAL_CHECK_S)


@contextmanager
def _fed_by_signals(queue: SimpleQueue[None]) -> Iterator[None]:
    """In the ``with`` block, a signal that stops the process puts an item into ``queue``, which ends the pause of the event loop.

    Afterwards the loop handles the signal, because Python also writes each signal to the loop's wakeup descriptor.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, lambda *_: queue.put(None)) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class ControlServer:
    """The HTTP server of the control API. It responds after `serve` was called. Raises `ConfigError` if the address cannot be
    bound."""

    def __init__(self, controlled: ControlledBroker, pages: Pages = NO_PAGES) -> None:
        settings = controlled.serving.broker.settings
        self._pages = pages
        self._own_names = advertised_hosts(settings)
        kept: Access | None = None
        if pages is not NO_PAGES:
            # Imported only here, because a control API without pages does not store its port and token.
            from ottla.control import kept_access

            kept = kept_access.read_access(controlled.serving.directory)
        self.token = settings.ottla_control_token or (random_token() if kept is None else kept.token)
        self._pages_token = read_only_token(self.token) if pages.is_read_only else self.token
        self._requests = PageRequests(pages=pages, check_access=self._check_page_token, reach=self._reach)
        self._controlled = controlled
        self._loop = asyncio.get_running_loop()
        self._pause = LoopPause(self._loop)
        self._own: dict[str, Callable[[], None]] = {PAUSE: self._pause.hold, RESUME: self._pause.let_go}
        # Commands and pauses run one at a time, so that no command starts while another request begins a pause.
        self._turn = threading.Lock()
        self._is_closed = threading.Event()
        self._metrics_app: WSGIApplication | None = None
        self._may_wait = threading.BoundedSemaphore(MAX_WAITING)
        where = Endpoint("control", settings.ottla_control_host, settings.ottla_control_port or 0)
        self._server = self._bound(where, kept if settings.ottla_control_port is None else None)
        if pages is not NO_PAGES and settings.ottla_control_token is None:
            access = kept_access.Access(port=self._server.port, token=self.token)
            if access != kept:
                kept_access.write_access(controlled.serving.directory, access)
        self.url = f"http://{Endpoint('control', where.host, self._server.port)}"
        # The token is in the fragment, because browsers do not send fragments to servers. The page parses the fragment as form
        # parameters, in which a plus sign means a space, so the token is quoted.
        self.pages_url = None if pages is NO_PAGES else f"{self.url}{pages.prefix}#token={quote(self._pages_token, safe='')}"

    def _bound(self, where: Endpoint, kept: Access | None) -> BoundedHttpServer:
        """Return a server at the port of the previous start (``kept``) if that port is free, otherwise at ``where``. Raises
        `ConfigError`."""
        if kept is not None:
            with suppress(OSError, ValueError):
                return BoundedHttpServer(where.host, kept.port, self._answer, self._count_bug, own_names=self._own_names)
        try:
            return BoundedHttpServer(where.host, where.port, self._answer, self._count_bug, own_names=self._own_names)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot open the control port on {where}: {why_not_bound(error)}") from error

    def serve(self) -> None:
        self._server.serve()

    def close(self) -> None:
        self._is_closed.set()
        self._server.close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            if path_of(environ).startswith(self._pages.prefix):
                if environ["REQUEST_METHOD"] != "POST":
                    return self._requests.show(environ, start_response)
                status, answer = 200, self._page_command(environ)
            elif path_of(environ) == METRICS:
                return self._metrics(environ, start_response)
            else:
                status, answer = 200, self._asked(environ)
        except CommandRefused as refused:
            status, answer = refused.status, error_document(str(refused))
        except (DirectoryError, ConfigError) as error:
            status, answer = 409, error_document(str(error))
        except OSError as error:
            status, answer = 409, error_document(described(error))
        return json_response(status, answer, start_response)

    def _count_bug(self) -> None:
        count_from_thread(self._loop, lambda: self._controlled.serving.broker.lifecycle)

    def _metrics(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        self._check_token(environ)
        # Imported at the first request, because the import of prometheus_client takes long.
        from ottla.broker.metrics.exposition import collect
        from ottla.broker.metrics.server import app_of

        with self._turn:
            if self._metrics_app is None:
                self._metrics_app = app_of(lambda: self.read(lambda controlled: collect(controlled.serving.broker)))
        return self._metrics_app(environ, start_response)

    def _page_command(self, environ: WSGIEnvironment) -> Any:
        self._check_page_token(environ)
        self._check_running()
        return self._requests.command(environ)

    def _reach(self, has_left: Callable[[], bool]) -> Reach:
        broker = self._controlled.broker
        return Reach(
            bootstrap=broker.bootstrap,
            own_addresses=broker.addresses.own,
            open_connection=lambda: self.read(lambda controlled: controlled.serving.open_connection()),
            loop=self,
            is_closed=self._is_closed,
            has_left=has_left,
        )

    def _asked(self, environ: WSGIEnvironment) -> Any:
        self._check_token(environ)
        method, path = str(environ["REQUEST_METHOD"]), path_of(environ)
        raw: bytes = environ["wsgi.input"].read()
        if path in self._own:
            return self._asked_itself(method, path, raw)
        command, named = _command(method, path)
        parameters = command.parsed(raw)
        if command.waits:
            if not self._may_wait.acquire(blocking=False):
                raise CommandRefused(409, f"{MAX_WAITING} requests are waiting already; try again when one of them has ended")
            try:
                return self._on_loop(command, parameters, named)
            finally:
                self._may_wait.release()
        with self._turn:
            return self._on_loop(command, parameters, named)

    def _asked_itself(self, method: str, path: str, raw: bytes) -> Any:
        if method != "POST":
            raise CommandRefused(405, f"{path} does not accept {method}; use POST")
        if raw.strip() not in (b"", b"{}"):
            raise CommandRefused(400, f"{path} takes no parameters")
        with self._turn:
            self._own[path]()
        return {}

    def _check_token(self, environ: WSGIEnvironment) -> None:
        if self._pages.is_read_only and has_token(environ, self._pages_token):
            raise CommandRefused(403, "the console is read-only, and so is its token; use the control API's token")
        check_token(environ, self.token)

    def _check_page_token(self, environ: WSGIEnvironment) -> None:
        if not has_token(environ, self._pages_token):
            check_token(environ, self.token)

    def read(self, read: Callable[[ControlledBroker], T]) -> T:
        """Return the result of a function that runs on the event loop. See `LoopReader`."""

        async def reading() -> T:
            return read(self._controlled)

        return self._read(reading)

    def in_steps(self, read: Callable[[ControlledBroker], Steps[T]]) -> T:
        """Return the result of a coroutine whose steps run on the event loop. See `LoopReader`."""
        return self._read(lambda: _stepped(self._controlled, read))

    def _read(self, reading: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._check_running()
        done = asyncio.run_coroutine_threadsafe(reading(), self._loop)
        try:
            return done.result(READ_TIMEOUT_S)
        except TimeoutError:
            done.cancel()
            raise CommandRefused(409, f"the broker is busy and did not answer within {READ_TIMEOUT_S:g} s; try again") from None

    def _check_running(self) -> None:
        if self._is_closed.is_set():
            raise CommandRefused(409, "the broker is stopping")
        if self._pause.is_held:
            raise CommandRefused(409, "the broker is paused; resume it first (POST /v1/resume)")

    def _on_loop(self, command: Command, parameters: Any, named: tuple[int | str, ...]) -> Any:
        self._check_running()
        done = asyncio.run_coroutine_threadsafe(_run(command, self._controlled, parameters, named), self._loop)
        try:
            answer = done.result(COMMAND_TIMEOUT_S)
        except TimeoutError:
            raise CommandRefused(409, f"the command did not end within {COMMAND_TIMEOUT_S:.0f} s; it is still running") from None
        return {} if answer is None else answer


async def _run(command: Command, controlled: ControlledBroker, parameters: Any, named: tuple[int | str, ...]) -> Any:
    return await command.run(controlled, parameters, *named)


async def _stepped(controlled: ControlledBroker, read: Callable[[ControlledBroker], Steps[T]]) -> T:
    """Run each step of a coroutine in its own iteration of the event loop, while the broker is serving.

    The scheduler (`Stepping`) does not run these steps, because a manual clock waits until the scheduler has no work.
    """
    loop, broker, steps = asyncio.get_running_loop(), controlled.serving.broker, read(controlled)
    failure: Exception | None = None
    try:
        while not broker.lifecycle.is_stopping:
            step = steps.send(None) if failure is None else steps.throw(failure)
            assert not isinstance(step, Pause), "a reading waits for no event"
            failure = None
            try:
                await (asyncio.sleep(0) if step is None else loop.run_in_executor(None, step))
            except Exception as error:
                failure = error
    except StopIteration as ended:
        return cast(T, ended.value)
    finally:
        steps.close()
    raise CommandRefused(409, "the broker is stopping, or its data is being replaced; try again")


def _command(method: str, path: str) -> tuple[Command, tuple[int | str, ...]]:
    at_path = [(command, named) for command in COMMANDS if (named := command.named_in(path)) is not None]
    for command, named in at_path:
        if command.method == method:
            return command, named
    if at_path:
        raise CommandRefused(405, f"{path} does not accept {method}; use {' or '.join(command.method for command, _ in at_path)}")
    known = ", ".join(sorted({command.path for command in COMMANDS} | {PAUSE, RESUME, METRICS}))
    raise CommandRefused(404, f"unknown path {path}; the paths are {known}")
