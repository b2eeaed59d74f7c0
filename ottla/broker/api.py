"""How an API is declared, and what a handler gets and gives.

A file in `broker.handlers` holds one `Declaration`, and `broker.handlers.registry` finds it. Versions are those of the API's
schema: a schema has no version that is not served.

Handlers run in the order in which requests arrive: they return the response, a `broker.later.Later` for a real wait, None for no
answer, or, where a request is too large to be handled at once, a generator of steps (`storage.steps`) that returns one of these.
No further request of the connection is handled before its last step, as Kafka mutes a channel; other clients' requests are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ottla.broker.authorisation import Authorisation
from ottla.broker.services import Services
from ottla.protocol.codec import Api, api
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS


class RequestContext(msgspec.Struct):
    """Who asks, and in which version."""

    version: int
    client_id: str
    client_host: str
    connection_id: int
    listener: str


Handler = Callable[[Services, Any, RequestContext], Any]
"""What a handler is given: services, the request, and who asks. Its own signature names less than all `Services`: a Protocol of
what it needs, so that nobody has to read the handler to know what it may touch."""


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
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
    is_small: Callable[[Services, Any, RequestContext], bool] | None = None

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
