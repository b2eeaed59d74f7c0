"""The declaration of an API, and the arguments and results of its handler.

Each module in `broker.handlers` has one `Declaration`, which a `broker.apis.registry.ApiRegistry` finds. The served versions are
those of the API's schema.

Handlers run in the order in which requests arrive. A handler returns the response, a `broker.loop.pending_response.Later` if the
response must wait, or None for no response. For a request that is too large to be handled at once, it returns a generator of steps
(`protocol.steps`) that returns one of these. Until the last step no further request of the connection is handled, as Kafka mutes a
channel; requests of other connections are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from ottla.broker.apis.authorisation import Authorisation
from ottla.broker.apis.services import Services
from ottla.protocol.codec import Api, api
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS


class RequestContext(msgspec.Struct):
    """The version of a request, and the client that sent it."""

    version: int
    client_id: str
    client_host: str
    connection_id: int
    listener: str


S = TypeVar("S")
Handler: TypeAlias = Callable[[S, Any, RequestContext], Any]
"""Takes the server's services, the request and its context; returns the response. The signature of a handler has a Protocol with
only the services that it needs, so that the signature shows which state the handler may change."""


class Declared(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """One API of a server that gives its handlers the services ``S``.

    ``failed`` builds the response with one error for a whole request. ``authorisation`` has the permissions that Kafka's authorizer
    checks; it is declared and not enforced yet. ``is_bulky``: the response may be far larger than the request, so the request waits
    while too many bytes of responses wait to be sent. ``is_small`` returns for one request of a bulky API whether its response is
    small.
    """

    key: int
    handle: Handler[S]
    failed: Callable[[Any, int, Code], Any]
    authorisation: tuple[Authorisation, ...]
    is_bulky: bool = False
    is_small: Callable[[S, Any, RequestContext], bool] | None = None

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
        """The newest version that is served. With ``unstable`` (``unstable.api.versions.enable``) it may be an unstable version."""
        return APIS[self.key].newest_version if unstable else APIS[self.key].max_version


Declaration: TypeAlias = Declared[Services]
"""One API of a broker."""
