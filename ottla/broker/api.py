"""How an API is declared, and what a handler gets and gives.

A file in `broker.handlers` holds one `Declaration`, and `broker.handlers.registry` finds it. Versions are those of the API's
schema: a schema has no version that is not served.

Handlers run in the order in which requests arrive: they return the response, a `Later` for a real wait, None for no answer, or,
where a request is too large to be handled at once, a generator of steps (`storage.steps`) that returns one of these. No further
request of the connection is handled before its last step, as Kafka mutes a channel; other clients' requests are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.broker.authorisation import Authorisation
from ottla.protocol.codec import Api, api
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class Later:
    """A response that is not there yet. ``resolve`` may be called before or after ``on_ready``, the first time counts.

    ``is_durable``: whoever resolves it has waited for the disk already. ``on_abandoned`` is called where nobody waits any more.
    ``is_large``: the response has so many elements that it is to be encoded beside the event loop.
    """

    __slots__ = ("_callback", "_done", "_response", "is_durable", "is_large", "on_abandoned")

    def __init__(self, *, is_durable: bool = False, on_abandoned: Callable[[], None] | None = None) -> None:
        self.is_durable = is_durable
        self.is_large = False
        self.on_abandoned = on_abandoned
        self._callback: Callable[[Any], None] | None = None
        self._done = False
        self._response: Any = None

    @property
    def is_done(self) -> bool:
        return self._done

    def resolve(self, response: Any) -> None:
        if self._done:
            return
        self._done, self._response = True, response
        callback, self._callback, self.on_abandoned = self._callback, None, None
        if callback is not None:
            callback(response)

    def abandon(self) -> None:
        """The client is gone: whoever was to resolve it may give up, and what it holds is let go."""
        if self._done:
            return
        self._done = True
        on_abandoned, self._callback, self.on_abandoned = self.on_abandoned, None, None
        if on_abandoned is not None:
            on_abandoned()

    def on_ready(self, callback: Callable[[Any], None]) -> None:
        if self._done:
            callback(self._response)
        else:
            self._callback = callback


@dataclass(slots=True)
class Context:
    """Who asks, and in which version."""

    broker: Broker
    version: int
    client_id: str
    client_host: str
    connection_id: int
    listener: str


Handler = Callable[[Context, Any], Any]


@dataclass(slots=True, frozen=True, kw_only=True)
class Declaration:
    """One API: its key, its handler, the response that tells of a failure as a whole, and what Kafka's authorizer is asked for.

    ``authorisation`` is declared and not enforced yet.
    ``is_bulky``: the answer may be far larger than the request, so it waits while too much waits to go out already.
    ``is_small`` tells of a request whether its answer is small all the same.
    """

    key: int
    handle: Handler
    failed: Callable[[Any, int, Code], Any]
    authorisation: tuple[Authorisation, ...]
    is_bulky: bool = False
    is_small: Callable[[Context, Any], bool] | None = None

    @property
    def codec(self) -> Api:
        return api(self.key)

    @property
    def name(self) -> str:
        """Kafka's name of the API."""
        return APIS[self.key].name

    @property
    def min_version(self) -> int:
        return APIS[self.key].min_version

    def max_version(self, *, unstable: bool) -> int:
        """The newest version served; with ``unstable`` (``unstable.api.versions.enable``) also one that may still change."""
        return APIS[self.key].newest_version if unstable else APIS[self.key].max_version
