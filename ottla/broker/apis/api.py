"""The declaration of an API, and the arguments and results of its handler.

Each module in `broker.handlers` has one `Declaration`, which a `broker.apis.registry.ApiRegistry` finds. The served versions are
those of the API's schema.

A handler is a coroutine that returns the response, or None for no response. The dispatcher runs its steps (`protocol.steps`). State
changes are plain functions, because other requests may run at each ``await``.

Handlers begin in the order in which requests arrive. While a handler awaits `next_turn`, `in_thread` or a `Pause`, no further
request of its connection is handled, as Kafka mutes a channel. A parked handler (`Pause.is_parked`) lets further requests run, and
is cancelled if the client disconnects. Responses are sent in the order of the requests.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from ottla.broker.apis.authorisation import Authorisation, Authorise
from ottla.broker.apis.services import Services
from ottla.protocol.codec import Api, api
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS
from ottla.protocol.steps import Steps
from ottla.security.principal import ANONYMOUS, KafkaPrincipal


class RequestRefused(Exception):
    """A request that gets no response: its connection is closed. The exception's text is the reason."""


class RequestContext(msgspec.Struct):
    """The version of a request, and the client that sent it."""

    version: int
    client_id: str
    client_host: str
    connection_id: int
    listener: str
    principal: KafkaPrincipal = ANONYMOUS
    """The authenticated identity of the client."""
    is_by_token: bool = False
    """Whether the client has authenticated with a delegation token (KIP-48)."""


S = TypeVar("S")
Handler: TypeAlias = Callable[[S, Any, RequestContext], Steps[Any]]
"""A coroutine that takes the server's services, the request and its context, and returns the response. A handler's signature names
a Protocol with only the services that it needs, so that the signature shows which state the handler may change."""


class WaitsFor(Enum):
    """The writes for which a response waits, even after its handler has returned, until they are durable or committed.

    Writes are durable once they survive what ``ottla.durability`` names: ``process`` a crash of the broker, so that nothing
    needs to wait, ``power`` a power cut, so that the response waits for a sync.
    """

    COORDINATORS = "coordinators"
    """All writes must be durable, and the coordinators' records that the handler used must be committed."""
    DURABILITY = "durability"
    """All writes must be durable. The handler itself waits for replicas, or reads only below the high watermark."""
    HANDLER = "handler"
    """No writes: the handler itself waits, before it returns the response."""


class Declared(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """One API of a server that gives its handlers the services ``S``.

    ``failed`` builds the response to a request that fails as a whole. It raises `RequestRefused` if the request gets no response:
    its client learns of the error by the closed connection (RequestHandlerHelper.sendErrorOrCloseConnection). ``authorisation``
    lists the permissions that Kafka's authorizer checks; with ``authorise`` they determine where they
    are checked (`request_authorizer.enforcing`). ``is_bulky``: the response may be far larger than the request, so the request
    waits while too many bytes of responses are unsent, unless ``is_small`` returns that this response will be small.
    """

    key: int
    handle: Handler[S]
    failed: Callable[[Any, int, Code], Any]
    authorisation: tuple[Authorisation, ...]
    waits_for: WaitsFor = WaitsFor.COORDINATORS
    is_bulky: bool = False
    is_small: Callable[[S, Any, RequestContext], bool] | None = None
    authorise: Authorise | None = None
    """Checks permissions before the handler is called, where a field's name is not enough to tell what a request needs."""
    refused: Callable[[S, Any, RequestContext], Any] | None = None
    """Returns the broker's error response to a request; None if the broker may forward the request to a controller."""
    has_secrets: bool = False
    """Whether requests or responses may contain passwords, tokens or keys, so that the texts of exceptions are not logged."""

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
        """The newest served version of the API. ``unstable`` includes unstable versions (``unstable.api.versions.enable``)."""
        return APIS[self.key].newest_version if unstable else APIS[self.key].max_version


Declaration: TypeAlias = Declared[Services]
"""One API of a broker."""
