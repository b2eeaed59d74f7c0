"""How an API is declared, and what a handler gets and gives.

A handler file holds one `Declaration`; ApiVersions, dispatch and the docs read it. Handlers run in the order in which
requests arrive: they return the response, a `Later` for a real wait, None for no answer, or, where a request is too large
to be handled at once, a generator of steps (`storage.steps`) that returns one of these. No further request of the connection
is handled before its last step, as Kafka mutes a channel; other clients' requests are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

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


@dataclass(slots=True, frozen=True)
class Declaration:
    """One API: its key, its handler, and the response that tells of a failure as a whole.

    ``is_bulky``: the answer may be far larger than the request, so it waits while too much waits to go out already.
    ``is_small`` tells of a request whether its answer is small all the same.
    """

    key: int
    handle: Handler
    failed: Callable[[Any, int, Code], Any]
    is_bulky: bool = False
    is_small: Callable[[Context, Any], bool] | None = None

    @property
    def codec(self) -> Api:
        return api(self.key)


_SERVED_KEYS = (*range(4), *range(8, 17), *range(18, 29), 32, 33, 35, 37, 42, 44, 47, 57, 60, 61, 65, 66, 74, 75)
SERVED = {key: APIS[key].module for key in _SERVED_KEYS}
"""API key -> module in broker/handlers, imported at first use."""

OFFERED_FROM = {0: 0}
"""Produce is offered from 0 because librdkafka asks so (KAFKA-18659); 0 to 2 are refused when they come."""


@cache
def declaration(key: int) -> Declaration:
    """Raises KeyError for an API that is not served."""
    found: Declaration = import_module(f"ottla.broker.handlers.{SERVED[key]}").API
    return found


def newest_version(key: int, *, unstable: bool) -> int:
    """``unstable``: as ``unstable.api.versions.enable`` says."""
    return APIS[key].newest_version if unstable else APIS[key].max_version


def offered_versions(*, unstable: bool = False) -> list[tuple[int, int, int]]:
    """Key, lowest and highest version of each API, by key."""
    return [(key, OFFERED_FROM.get(key, APIS[key].min_version), newest_version(key, unstable=unstable)) for key in sorted(SERVED)]
