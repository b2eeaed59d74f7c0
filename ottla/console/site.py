"""Serves the console's files to every client, and the values of pages to clients with the token."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from ottla.client.errors import ClientError, KafkaAnswered, UnknownTopic
from ottla.client.kafka_client import KafkaClient
from ottla.console.cluster_view import ClusterView
from ottla.console.deadline import Deadline, Late, new_client
from ottla.console.decoding import RegisteredValues
from ottla.console.kept_reads import KeptReads
from ottla.console.own_broker import OwnBroker
from ottla.console.page_request import Asked, LastRead, refusal
from ottla.console.values import OF_OWN_BROKER, OF_REGISTRY, VALUES
from ottla.control.command import CommandRefused
from ottla.control.pages import PageFile, Pages, Reach
from ottla.protocol.errors import Code, KafkaError

PREFIX: Final = "/console/"
VALUES_PREFIX: Final = f"{PREFIX}v1/"
ACTIONS_PREFIX: Final = f"{PREFIX}actions/"
PREVIEWS_PREFIX: Final = f"{PREFIX}previews/"
ACTION_TIMEOUT_S: Final = 10.0
"""Timeout, in seconds, of each step of an action, such as the wait for the leaders of a new topic."""
DOWNLOAD: Final = "download"
"""Name of the event stream that transfers a file of records."""
MODE: Final = "mode.js"
"""The name of a generated file that tells the pages whether the console is read-only, whether its broker is in this process, and
whether it has a schema registry."""
MAX_PAGES: Final = 5
"""Maximum number of open pages. A page occupies a connection of the control server, and one of a browser's six connections to a
host; commands need other connections."""
INTERVAL_S: Final = 0.25
"""Delay, in seconds, after which a page reads its values again."""
CLUSTER_INTERVAL_S: Final = 1.0
"""Delay, in seconds, after which a page reads its values again from a cluster outside of this process. Each update needs several
requests."""
PLACE_TIMEOUT_S: Final = 2 * INTERVAL_S
"""Maximum time, in seconds, that a new page waits for another page to close if `MAX_PAGES` are open."""
REST: Final = 3.0
"""Minimum ratio of the delay between two updates of a page to the time that the last update took, so that a slow page is updated
less often."""
LONGEST_INTERVAL_S: Final = 10.0
MAX_EVENT_BYTES: Final = 4 << 20
"""Maximum size of a page's values, in bytes. Each page limits the number of its rows, but not the length of all names."""
SILENCE_S: Final = 5.0
"""Time without a change, in seconds, after which a comment is sent to detect a closed page."""
KINDS: Final = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}

log = structlog.get_logger()
NewClient = Callable[[Reach, Callable[[], None]], KafkaClient]
"""Creates a client that calls the given function before each request; see `deadline.new_client`."""
NewView = Callable[[Callable[[], KafkaClient]], ClusterView]
"""Creates the `ClusterView` for one update of a page. The argument returns the page's client."""


@cache
def all_files() -> Mapping[str, PageFile]:
    """Return the files of the pages by name. Files of other types, such as an editor's backups, are omitted."""
    kinds = {one: KINDS.get(one.name.rpartition(".")[2]) for one in (files("ottla.console") / "pages").iterdir() if one.is_file()}
    return {one.name: PageFile(kind=kind, content=one.read_bytes()) for one, kind in kinds.items() if kind is not None}


def _nothing(asked: Asked) -> None:
    """The values of a download's page: none, because a download is not updated live."""


def _is_missing(error: ClientError) -> bool:
    """Whether the page's topic, group or transactional id does not exist. If so, the page must be cleared."""
    if isinstance(error, UnknownTopic):
        return True
    return isinstance(error, KafkaAnswered) and error.code in (Code.TRANSACTIONAL_ID_NOT_FOUND, Code.GROUP_ID_NOT_FOUND)


class OpenPage:
    """The server-sent events of one open page. Each event has the page's new values, or an error."""

    def __init__(
        self,
        name: str,
        read: Callable[[Asked], Any],
        query: Mapping[str, str],
        reach: Reach,
        client_of: NewClient,
        closed: Callable[[], None],
        registered: RegisteredValues | None = None,
        view_of: NewView | None = None,
        of_cluster: Sequence[str] = (),
        kept: KeptReads | None = None,
    ) -> None:
        """``kept`` has the values that all pages of a broker's own console cache; without it, the page has a cache of its own."""
        own = kept or KeptReads()
        self._registered = registered
        self._of_cluster = of_cluster
        self._name = name
        self._view_of = view_of or (lambda client: OwnBroker(reach.loop, own))
        self._interval_s = INTERVAL_S if view_of is None else CLUSTER_INTERVAL_S
        self._read = read
        self._query = query
        self._reach = reach
        self._client_of = client_of
        self._on_close: Callable[[], None] | None = closed
        self._client: KafkaClient | None = None
        self._last_read = LastRead()
        self._deadline = Deadline(reach)
        self._has_failed = False
        self._next_s = 0.0
        self._sent = b""
        self._sent_s = 0.0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while not self._has_failed and self._may_go_on():
            begun_s = time.monotonic()
            event = self._event()
            now_s = time.monotonic()
            self._next_s = now_s + min(max(self._interval_s, REST * (now_s - begun_s)), LONGEST_INTERVAL_S)
            if event != self._sent:
                self._sent, self._sent_s = event, now_s
                return event
            if now_s - self._sent_s >= SILENCE_S:
                self._sent_s = now_s
                return b": unchanged\n\n"
        raise StopIteration

    def _may_go_on(self) -> bool:
        """Wait until the page may read its values again. Returns False if the page was closed."""
        while (left_s := self._next_s - time.monotonic()) > 0:
            if self._reach.is_closed.wait(min(left_s, INTERVAL_S)) or self._reach.has_left():
                return False
        return not self._reach.is_closed.is_set()

    def asked(self) -> Asked:
        """Return the `Asked` for one update of the page."""
        return Asked(
            query=self._query,
            view=self._view_of(self._connected),
            loop=self._reach.loop,
            client=self._connected,
            last_read=self._last_read,
            deadline=self._deadline,
            of_cluster=self._of_cluster,
            registered=self._registered,
        )

    def _event(self) -> bytes:
        self._deadline.begin()
        try:
            data = msgspec.json.encode(self._read(self.asked()))
            if len(data) > MAX_EVENT_BYTES:
                raise CommandRefused(409, f"this page has more than {MAX_EVENT_BYTES >> 20} MiB, which is not sent to a browser")
            return b"event: values\ndata: " + data + b"\n\n"
        except CommandRefused as error:
            refused = error
        except ClientError as error:
            # The broker may have been restarted, so the page opens new connections when it reads again.
            self._drop_client()
            refused = CommandRefused(404 if _is_missing(error) else 409, str(error))
        except KafkaError as error:
            refused = refusal(error)
        except Exception:
            # The error is a bug. End the page, so that the bug is not logged four times a second. The browser opens the page again.
            # The query is not logged, because it may have keys and values of records.
            log.exception("console_page_failed", page=self._name)
            self._has_failed = True
            refused = CommandRefused(500, "this page failed; see the broker's log")
        return b"event: refused\ndata: " + msgspec.json.encode({"status": refused.status, "error": str(refused)}) + b"\n\n"

    def _connected(self) -> KafkaClient:
        if self._client is None:
            self._client = self._client_of(self._reach, self._deadline.check)
        return self._client

    def _drop_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        self._drop_client()
        closed, self._on_close = self._on_close, None
        if closed is not None:
            closed()


class OpenDownload:
    """The server-sent events of one download."""

    def __init__(self, page: OpenPage) -> None:
        # `download` is imported here, because most pages download nothing.
        from ottla.console.download import download

        self._page = page
        self._events = download(page.asked())

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._events)
        except StopIteration:
            raise
        except Exception:
            # The error is a bug. The browser sees that the stream ends without the event ``done``.
            log.exception("console_page_failed", page=DOWNLOAD)
            raise StopIteration from None

    def close(self) -> None:
        self._page.close()


class Console:
    """The console's files, pages and actions, which an HTTP server of `ottla.control` serves. Each open page reads its values in
    the thread of its request. ``registered`` decodes values with the schemas of a registry."""

    prefix = PREFIX

    def __init__(
        self,
        client_of: NewClient = new_client,
        registered: RegisteredValues | None = None,
        *,
        is_read_only: bool = False,
        of_cluster: Sequence[str] = (),
        view_of: NewView | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """``of_cluster`` has the connection options, besides ``--bootstrap``, of the ``ottla`` commands that pages show.
        ``view_of`` is given for a cluster outside of this process, and excludes the pages `OF_OWN_BROKER`. Without ``registered``,
        there are no pages `OF_REGISTRY`. ``changed`` is called after each action."""
        self._registered = registered
        self._client_of = client_of
        self.is_read_only = is_read_only
        self._of_cluster = of_cluster
        self._view_of = view_of
        self._changed = changed
        self._kept = KeptReads()
        left_out = (OF_OWN_BROKER if view_of is not None else frozenset()) | (OF_REGISTRY if registered is None else frozenset())
        self._values = {name: read for name, read in VALUES.items() if name not in left_out}
        self._places = threading.BoundedSemaphore(MAX_PAGES)

    def file(self, path: str) -> PageFile | None:
        name = path.removeprefix(PREFIX) or "index.html"
        if name != MODE:
            return all_files().get(name)
        # Only this process's broker has faults, a clock and a history of clients; pages hide them for other clusters.
        mode = {
            "isReadOnly": self.is_read_only,
            "isElsewhere": self._view_of is not None,
            "hasRegistry": self._registered is not None,
        }
        lines = [f"export const {variable} = {json.dumps(is_set)};\n" for variable, is_set in mode.items()]
        return PageFile(kind=KINDS["js"], content="".join(lines).encode())

    def command(self, path: str, body: bytes, reach: Reach) -> Any:
        """Carry out an action or preview it. Raises `CommandRefused`."""
        # Imported at the first action, because most pages only read.
        from ottla.console.actions.registry import carried_out, no_registry

        if path.startswith(VALUES_PREFIX):
            raise CommandRefused(405, f"{path} does not accept POST; use GET")
        is_preview = path.startswith(PREVIEWS_PREFIX)
        name = path.removeprefix(PREVIEWS_PREFIX).removeprefix(ACTIONS_PREFIX)
        if name == path:
            raise CommandRefused(404, f"unknown path {path}; the console has {ACTIONS_PREFIX}NAME and {PREVIEWS_PREFIX}NAME")
        if self.is_read_only:
            option = "--console-read-only" if self._view_of is None else "--read-only"
            raise CommandRefused(403, f"the console is read-only; start it without {option} to change anything")
        options = self._options(reach)
        registry = no_registry if self._registered is None else self._registered.client
        try:
            return carried_out(name, body, lambda: self._acting(reach), options, is_preview=is_preview, registry=registry)
        finally:
            if not is_preview:
                self._changed()
                self._kept.clear()

    def _options(self, reach: Reach) -> list[str]:
        """Return the connection options of the ``ottla`` commands that pages show."""
        return ["--bootstrap", reach.bootstrap, *self._of_cluster]

    def _acting(self, reach: Reach) -> KafkaClient:
        """Return a client for an action. An action continues if the browser leaves, but not if the control API closes."""

        def check() -> None:
            if reach.is_closed.is_set():
                raise Late("the console is stopping")

        client = self._client_of(reach, check)
        client.brokers.timeout_s = ACTION_TIMEOUT_S
        return client

    def events(self, path: str, query: Mapping[str, str], reach: Reach) -> OpenPage | OpenDownload:
        """Return the events of a page. Raises `CommandRefused`."""
        name = path.removeprefix(VALUES_PREFIX) if path.startswith(VALUES_PREFIX) else ""
        read = _nothing if name == DOWNLOAD else self._values.get(name)
        if read is None:
            known = ", ".join(VALUES_PREFIX + name for name in (*self._values, DOWNLOAD))
            raise CommandRefused(404, f"unknown path {path}; the console has {known}")
        # Wait, because a page that the user has just closed is removed only within `INTERVAL_S`.
        if not self._places.acquire(timeout=PLACE_TIMEOUT_S):
            raise CommandRefused(409, f"{MAX_PAGES} pages of the console are already open; close one of them")
        closed, options = self._places.release, self._options(reach)
        page = OpenPage(name, read, query, reach, self._client_of, closed, self._registered, self._view_of, options, self._kept)
        try:
            return OpenDownload(page) if name == DOWNLOAD else page
        except BaseException:
            page.close()
            raise


if TYPE_CHECKING:
    # mypy checks here that `Console` implements `Pages`.
    _PORT: type[Pages] = Console
