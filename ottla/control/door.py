"""The door through which a broker is steered: HTTP with a token; requests and responses are JSON.

The door has threads of its own, so that it answers while `LoopPause` holds the event loop. Everything else runs on the event loop.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.broker.config.definitions import ConfigError
from ottla.broker.env import why_not_bound
from ottla.broker.http_server import MAX_CONNECTIONS, BoundedHttpServer
from ottla.broker.network.listener import Endpoint
from ottla.control.asking import Command, Refused, Steered
from ottla.control.commands import COMMANDS
from ottla.storage.filesystem import described
from ottla.storage.identity import DirectoryError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

MAX_BODY_BYTES = 1 << 20
MAX_DISCARDED_BYTES = 16 << 20
DISCARDED_PIECE_BYTES = 1 << 16
"""A body that is too large is read in pieces of this size, in bytes, and dropped. For a still larger body the connection is
closed."""
COMMAND_TIMEOUT_S = 60.0
"""How long a command may take on the event loop, in seconds."""
PAUSE_TIMEOUT_S = 5.0
"""How long a pause waits for the event loop while the loop is busy, in seconds."""
MAX_WAITING = MAX_CONNECTIONS // 2
"""How many requests may wait at once. The other connections stay free for requests that do not wait, above all for those that end
the waiting."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
TOKEN_BYTES = 16
SCHEME = "Bearer "
PAUSE, RESUME = "/v1/pause", "/v1/resume"
"""The paths of the commands that the door carries out itself."""
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed", 409: "Conflict"}


class LoopPause:
    """Holds the event loop, so that nothing in the broker goes on, as if the machine stood still."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._let_go: threading.Event | None = None

    @property
    def is_held(self) -> bool:
        return self._let_go is not None

    def hold(self) -> None:
        """Returns once the event loop stands still. Raises `Refused`."""
        if self._let_go is not None:
            return
        held, let_go = threading.Event(), threading.Event()

        def stand_still() -> None:
            with _set_by_signals(let_go):
                held.set()
                let_go.wait()
            if self._let_go is let_go:
                self._let_go = None

        self._loop.call_soon_threadsafe(stand_still)
        self._let_go = let_go
        if not held.wait(PAUSE_TIMEOUT_S):
            self.let_go()
            raise Refused(409, f"the broker is busy, and could not be paused within {PAUSE_TIMEOUT_S:.0f} s; try again")

    def let_go(self) -> None:
        if self._let_go is not None:
            self._let_go.set()
            self._let_go = None


@contextmanager
def _set_by_signals(event: threading.Event) -> Iterator[None]:
    """Set ``event`` when a signal comes. A held event loop handles no signal, so whoever stops the process first lets the loop go
    on.

    The loop still learns of the signal, because Python writes each signal to the loop's descriptor.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, lambda *_: event.set()) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class ControlDoor:
    """The HTTP server of the door. Raises `ConfigError` for an address that cannot be bound."""

    def __init__(self, steered: Steered) -> None:
        settings = steered.serving.broker.settings
        self.token = settings.ottla_control_token or secrets.token_urlsafe(TOKEN_BYTES)
        self._steered = steered
        self._loop = asyncio.get_running_loop()
        self._pause = LoopPause(self._loop)
        self._own: dict[str, Callable[[], None]] = {PAUSE: self._pause.hold, RESUME: self._pause.let_go}
        # Commands run one at a time: a command must not meet a pause that another command has just begun.
        self._turn = threading.Lock()
        self._may_wait = threading.BoundedSemaphore(MAX_WAITING)
        where = Endpoint("control", settings.ottla_control_host, settings.ottla_control_port or 0)
        try:
            self._server = BoundedHttpServer(where.host, where.port, self._answer)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot open the control port on {where}: {why_not_bound(error)}") from error
        self.url = f"http://{Endpoint('control', where.host, self._server.port)}"

    def close(self) -> None:
        self._server.close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            status, answer = 200, self._asked(environ)
        except Refused as refused:
            status, answer = refused.status, {"error": str(refused)}
        except (DirectoryError, ConfigError) as error:
            status, answer = 409, {"error": str(error)}
        except OSError as error:
            status, answer = 409, {"error": described(error)}
        body = msgspec.json.encode(answer) + b"\n"
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(f"{status} {_REASONS[status]}", headers)
        return [body]

    def _asked(self, environ: WSGIEnvironment) -> Any:
        """Carry out a request. Raises `Refused`, and what `Command.run` raises."""
        shown = str(environ.get("HTTP_AUTHORIZATION", ""))
        if not hmac.compare_digest(shown.encode(), f"{SCHEME}{self.token}".encode()):
            raise Refused(401, f"send the header Authorization: {SCHEME}TOKEN with the token of the broker's ready line")
        method, path = str(environ["REQUEST_METHOD"]), _path(environ)
        raw = _body(environ)
        if path in self._own:
            return self._asked_itself(method, path, raw)
        command, named = _command(method, path)
        parameters = command.parsed(raw)
        if command.waits:
            if not self._may_wait.acquire(blocking=False):
                raise Refused(409, f"{MAX_WAITING} questions wait for something already; ask again when one of them is answered")
            try:
                return self._on_loop(command, parameters, named)
            finally:
                self._may_wait.release()
        with self._turn:
            return self._on_loop(command, parameters, named)

    def _asked_itself(self, method: str, path: str, raw: bytes) -> Any:
        if method != "POST":
            raise Refused(405, f"{path} is asked by POST")
        if raw.strip() not in (b"", b"{}"):
            raise Refused(400, f"{path} takes no parameters")
        with self._turn:
            self._own[path]()
        return {}

    def _on_loop(self, command: Command, parameters: Any, named: tuple[int | str, ...]) -> Any:
        if self._pause.is_held:
            raise Refused(409, "the broker is paused; resume it first (POST /v1/resume)")
        done = asyncio.run_coroutine_threadsafe(_run(command, self._steered, parameters, named), self._loop)
        try:
            answer = done.result(COMMAND_TIMEOUT_S)
        except TimeoutError:
            raise Refused(409, f"the broker has not done it within {COMMAND_TIMEOUT_S:.0f} s") from None
        return {} if answer is None else answer


async def _run(command: Command, steered: Steered, parameters: Any, named: tuple[int | str, ...]) -> Any:
    return await command.run(steered, parameters, *named)


def _command(method: str, path: str) -> tuple[Command, tuple[int | str, ...]]:
    """The command of a method and path, and the number or name in the path. Raises `Refused`."""
    at_path = [(command, named) for command in COMMANDS if (named := command.named_in(path)) is not None]
    for command, named in at_path:
        if command.method == method:
            return command, named
    if at_path:
        raise Refused(405, f"{path} is asked by {' or '.join(command.method for command, _ in at_path)}")
    known = ", ".join(sorted({command.path for command in COMMANDS} | {PAUSE, RESUME}))
    raise Refused(404, f"there is no {path}; there are {known}")


def _path(environ: WSGIEnvironment) -> str:
    """The path of a request. WSGI decodes its bytes as Latin-1 (PEP 3333); Kafka's names are UTF-8."""
    return str(environ["PATH_INFO"]).encode("latin-1").decode(errors="replace")


def _body(environ: WSGIEnvironment) -> bytes:
    """The body of a request. Raises `Refused`."""
    try:
        size = int(str(environ.get("CONTENT_LENGTH") or 0))
    except ValueError:
        raise Refused(400, "Content-Length is no number") from None
    if not 0 <= size <= MAX_BODY_BYTES:
        # The body is read before the answer is sent: a client that is still sending would only see a broken pipe, and not the
        # reason.
        left = min(size, MAX_DISCARDED_BYTES)
        while left > 0 and (piece := environ["wsgi.input"].read(min(left, DISCARDED_PIECE_BYTES))):
            left -= len(piece)
        raise Refused(400, f"the body may have {MAX_BODY_BYTES} bytes")
    body: bytes = environ["wsgi.input"].read(size)
    return body
