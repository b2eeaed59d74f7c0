"""The interface for pages that the control server serves to browsers, and their security headers."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import parse_qsl, urlsplit

import msgspec

from ottla.addresses import Address
from ottla.control.command import CommandRefused, ControlledBroker
from ottla.protocol.steps import Steps

if TYPE_CHECKING:
    from ottla.broker.loop.local_sockets import ClientEnd

T = TypeVar("T")
MAX_FIELDS: Final = 20
TOKEN_DIGITS: Final = 32
"""Number of hexadecimal digits of the token of read-only pages."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FILE_HEADERS: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
"""Headers that let a page load code and styles only from this server, send nothing to other sites, and not be framed by them."""
EVENT_HEADERS: Final = (("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))


class PageFile(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    """The value of the header Content-Type."""
    content: bytes


class LoopReader(Protocol):
    """Runs functions on the broker's event loop for a thread of the control API. The thread waits for the result.

    Both methods raise `command.CommandRefused` if the broker is paused, stopping or busy.
    """

    def read(self, read: Callable[[ControlledBroker], T], /) -> T:
        """Return the result of a function. The function must be fast, because it blocks the event loop."""
        ...

    def in_steps(self, read: Callable[[ControlledBroker], Steps[T]], /) -> T:
        """Return the result of a coroutine (`protocol.steps`). Other work runs between its steps."""
        ...


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The means by which a page reads from the broker: state on the event loop, and records as a Kafka client.

    ``own_addresses`` are the broker's advertised addresses. They may be reachable only from other machines, or only with
    credentials, so ``open_connection`` opens a connection inside the process. ``is_closed`` is set when the control API closes.
    ``has_left`` returns whether the browser has closed the connection.
    """

    bootstrap: str
    own_addresses: frozenset[Address]
    open_connection: Callable[[], ClientEnd]
    loop: LoopReader
    is_closed: threading.Event
    has_left: Callable[[], bool]


class Events(Protocol):
    """Server-sent events as bytes. ``close`` is always called at the end, also after an error."""

    def __iter__(self) -> Iterator[bytes]: ...

    def __next__(self) -> bytes: ...

    def close(self) -> None: ...


class Pages(Protocol):
    """The pages whose paths begin with ``prefix``. Files need no token. Events send a page its changed values. Commands are POST
    requests.

    If ``is_read_only`` is set, the pages refuse commands, and the control API does not accept their token.
    """

    prefix: str
    is_read_only: bool

    def file(self, path: str) -> PageFile | None: ...

    def events(self, path: str, query: Mapping[str, str], reach: Reach) -> Events:
        """Return the events of a page. Called and iterated on a thread of the control API. Raises `CommandRefused`."""
        ...

    def command(self, path: str, body: bytes, reach: Reach) -> Any:
        """Carry out a POST request of a page, on a thread of the control API, and return the response for JSON. Raises
        `CommandRefused`."""
        ...


class _NoPages:
    """Serves no pages: no request matches the prefix, because every path begins with a slash."""

    prefix = "no pages"
    is_read_only = False

    def file(self, path: str) -> PageFile | None:
        return None

    def events(self, path: str, query: Mapping[str, str], reach: Reach) -> Events:
        raise CommandRefused(404, f"unknown path {path}")

    def command(self, path: str, body: bytes, reach: Reach) -> Any:
        raise CommandRefused(404, f"unknown path {path}")


NO_PAGES: Final = _NoPages()


def check_origin(origin: str, host: str) -> None:
    """Raise `CommandRefused` if a page of another site sends the request. Browsers name the page's site in the header Origin."""
    if origin and urlsplit(origin).netloc.lower() != host.lower():
        raise CommandRefused(403, "a page of another site may not send commands to this server")


def read_only_token(token: str) -> str:
    """Derive the token of read-only pages from the control API's token, without revealing that token."""
    return hmac.new(token.encode(), b"read-only pages", "sha256").hexdigest()[:TOKEN_DIGITS]


def query_of(text: str) -> dict[str, str]:
    """Parse the query of a URL. Raises `CommandRefused` for too many parameters."""
    try:
        return dict(parse_qsl(text, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise CommandRefused(400, f"the query has too many parameters; at most {MAX_FIELDS} are allowed") from None
