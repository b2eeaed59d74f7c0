"""Decodes a frame, calls the handler of its API, and encodes the response, without a socket."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, Protocol, TypeVar

from ottla.broker.apis.api import Declared, RequestContext, RequestRefused, WaitsFor
from ottla.broker.apis.registry import ApiRegistry
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.limits.memory_budgets import SMALL_BYTES
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.env import Clock
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.network.answers import merged
from ottla.broker.network.request_history import Reporter, reporter
from ottla.broker.network.wait_committed import response_once_committed
from ottla.broker.partitions.barrier import Barrier
from ottla.protocol.codec import API_VERSIONS_KEY, Api, decode_body, read_client_id, response_parts
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.primitives import Buffer, TooManyElements, message_elements
from ottla.protocol.steps import Steps, in_thread
from ottla.security.principal import ANONYMOUS, INTERNAL, KafkaPrincipal

ELEMENTS_AT_ONCE = 2_000
"""A request with more array elements than this is decoded, and its response encoded, in a worker thread."""
LARGE_FRAME_BYTES = 1 << 20
ELEMENTS_OF_LARGE_FRAMES = 64
"""Replaces `ELEMENTS_AT_ONCE` for a frame larger than `LARGE_FRAME_BYTES`: each element may have a string of 32,767 bytes. A
Produce request with one large batch is decoded on the event loop: it has few elements, because its records are not decoded."""
COPIED_FRAME_BYTES = 8 << 20
"""A frame with more bytes than this, unless it is a Produce request, is decoded in a worker thread, because decoding copies its
bytes.
"""
PRODUCE_KEY = 0
UNMEASURED = -1
"""Passed instead of the size of a request to which no quota applies."""
ELEMENT_BYTES = 128
"""Estimated memory in bytes of one decoded array element."""

_HEADER = Struct(">hhi")


S = TypeVar("S")


class Ports(Protocol[S]):
    """The parts of a server that dispatching needs. ``S`` is the type of the handlers' services."""

    clock: Clock
    counters: Counters
    lifecycle: Lifecycle
    live_config: LiveConfig
    barrier: Barrier
    transaction_listener: TransactionListener | None
    quotas: ClientQuotaEnforcement

    @property
    def apis(self) -> ApiRegistry[S]: ...

    @property
    def services(self) -> S:
        """The services that each handler gets."""
        ...


class UnsupportedApiVersions(Exception):
    """An ApiVersions request of a version that is not served. ``parts`` is the response, in version 0 (KIP-511)."""

    def __init__(self, parts: list[Buffer]) -> None:
        super().__init__()
        self.parts = parts


class Route(NamedTuple):
    """The data that all requests of one API and version on a connection share.

    ``header`` has the bytes of the request header after the correlation id; ``body_at`` is the position of the body in a frame.
    ``report`` is called with the responses; None without a `TransactionListener`.
    """

    api: Declared[Any]
    codec: Api
    context: RequestContext
    header: bytes
    body_at: int
    report: Reporter | None


class Dispatching(Protocol):
    """Dispatches the requests of one connection: a `Dispatcher`, or on a listener with SASL a `SaslDispatcher`."""

    @property
    def principal(self) -> KafkaPrincipal:
        """The client's principal, which is ANONYMOUS before the client is authenticated."""
        ...

    @property
    def client_ids(self) -> frozenset[str]:
        """The client ids of the first request of each API and version."""
        ...

    def end_session(self) -> bool:
        """End the client's SASL session (KIP-368). Returns whether the client had a session."""
        ...

    def frame_refused(self, size_bytes: int) -> None:
        """Count a client whose connection is closed because of the size of a frame."""
        ...

    def route(self, frame: memoryview) -> tuple[Route, int]: ...

    def decode(self, route: Route, frame: memoryview) -> Any: ...

    def is_small(self, route: Route, frame: memoryview) -> bool: ...

    def respond(self, route: Route, request: Any, size_bytes: int) -> Steps[Any]: ...

    def encode(self, route: Route, correlation_id: int, response: Any) -> list[Buffer] | None: ...

    async def decode_in_steps(self, route: Route, frame: memoryview) -> tuple[Any, int]: ...

    async def encode_in_steps(self, route: Route, correlation_id: int, response: Any) -> list[Buffer] | None: ...


class Client(NamedTuple):
    """The client of a dispatcher. ``throttle`` mutes the client for some ms. The tuple has no reference to the connection, so that
    a closed connection can be freed."""

    peer: str
    connection_id: int
    throttle: Callable[[int], None]
    is_by_token: bool = False
    """Whether the client has authenticated with a delegation token (KIP-48)."""


class AuthenticatingClient(Protocol):
    """The part of a connection that the authentication of its client uses."""

    connection_id: int
    peer: str

    @property
    def as_client(self) -> Client: ...

    def close(self, reason: str) -> None: ...


class Secured(Protocol):
    """How the clients of one listener authenticate (`network.secured`)."""

    def dispatcher(self, connection: AuthenticatingClient, limit_frames: Callable[[int], None]) -> Dispatching:
        """The dispatcher of a new connection. ``limit_frames`` sets the maximum size of the client's next frames, in bytes."""
        ...


class Dispatcher:
    """Dispatches the requests of one connection. An exception in a handler is logged, and only fails its own request."""

    __slots__ = (
        "_apis",
        "_barrier",
        "_client",
        "_listener",
        "_now_ms",
        "_ports",
        "_quotas",
        "_quoted",
        "_requests",
        "_routes",
        "_services",
        "principal",
    )

    def __init__(self, ports: Ports[S], listener: str, client: Client, principal: KafkaPrincipal = ANONYMOUS) -> None:
        self.principal = principal
        self._client = client
        self._quotas = ports.quotas
        self._quoted = ports.quotas.entities
        self._ports: Ports[Any] = ports
        self._apis: ApiRegistry[Any] = ports.apis
        self._services: Any = ports.services
        self._barrier = ports.barrier
        self._now_ms = ports.clock.now_ms
        self._listener = listener
        self._requests = ports.counters.requests
        self._routes: dict[tuple[int, int], Route] = {}

    @property
    def client_ids(self) -> frozenset[str]:
        return frozenset(route.context.client_id for route in self._routes.values())

    def end_session(self) -> bool:
        return False

    def frame_refused(self, size_bytes: int) -> None: ...

    def route(self, frame: memoryview) -> tuple[Route, int]:
        """Return the route for a frame, and the frame's correlation id.

        Raises `RequestRefused`, `UnsupportedApiVersions` or one of `protocol.codec.DECODE_FAILURES`.
        """
        key, version, correlation_id = _HEADER.unpack_from(frame)
        route = self._routes.get((key, version))
        if route is None:
            route = self._routes[key, version] = self._first_route(key, version, correlation_id, frame)
        elif frame[8 : route.body_at] != route.header:
            # The header has another client id or other tagged fields, so this request needs its own context.
            return self._fresh_route(route.api, version, frame), correlation_id
        return route, correlation_id

    def _first_route(self, key: int, version: int, correlation_id: int, frame: memoryview) -> Route:
        if key not in self._apis:
            raise RequestRefused(f"unknown API key {key}")
        api = self._apis.declaration(key)
        newest = api.max_version(unstable=self._ports.live_config.settings.unstable_api_versions_enable)
        if not api.min_version <= version <= newest:
            if key == API_VERSIONS_KEY:
                answer = api.failed(None, 0, Code.UNSUPPORTED_VERSION)
                raise UnsupportedApiVersions(response_parts(api.codec, 0, correlation_id, answer))
            raise RequestRefused(f"{api.name} version {version} is not served")
        return self._fresh_route(api, version, frame)

    def _fresh_route(self, api: Declared[Any], version: int, frame: memoryview) -> Route:
        client_id, body_at = read_client_id(frame, flexible=version >= api.codec.flexible_from)
        context = RequestContext(
            version=version,
            client_id=client_id or "",
            client_host=self._client.peer,
            connection_id=self._client.connection_id,
            listener=self._listener,
            principal=self.principal,
            is_by_token=self._client.is_by_token,
        )
        listener = self._ports.transaction_listener
        report = None if listener is None else reporter(api, listener, context)
        return Route(api=api, codec=api.codec, context=context, header=bytes(frame[8:body_at]), body_at=body_at, report=report)

    def decode(self, route: Route, frame: memoryview) -> Any:
        """Decode a request. Raises `DecodeError`, and `TooManyElements` if it is too large to be decoded on the event loop."""
        version = route.context.version
        self._requests[route.api.key, version] += 1
        if len(frame) > COPIED_FRAME_BYTES and route.api.key != PRODUCE_KEY:
            raise TooManyElements
        at_once = ELEMENTS_AT_ONCE if len(frame) <= LARGE_FRAME_BYTES else ELEMENTS_OF_LARGE_FRAMES
        return decode_body(route.codec.decode_request, frame, route.body_at, version, may_trail=True, max_elements=at_once)

    def is_small(self, route: Route, frame: memoryview) -> bool:
        """Whether the response to a request is small, although its API may have large responses (`Declared.is_small`). Raises
        `DecodeError`, `TooManyElements`."""
        is_small = route.api.is_small
        if is_small is None or len(frame) > SMALL_BYTES:
            return False
        request = decode_body(route.codec.decode_request, frame, route.body_at, route.context.version, may_trail=True)
        return is_small(self._services, request, route.context)

    def respond(self, route: Route, request: Any, size_bytes: int) -> Steps[Any]:
        """The coroutine that handles a request; it returns the response, or None for no response.

        ``size_bytes`` is the size of the frame; `UNMEASURED` if no quota applies to the request.
        """
        if self._quoted and size_bytes != UNMEASURED:
            return self._within_quotas(route, request, size_bytes)
        barrier, api = self._barrier, route.api
        handled = self._handled(route, request)
        if not barrier.is_replicated or api.waits_for is not WaitsFor.COORDINATORS:
            return handled
        return response_once_committed(barrier, handled, lambda code: api.failed(request, route.context.version, code))

    def _within_quotas(self, route: Route, request: Any, size_bytes: int) -> Steps[Any]:
        # Imported here, because most brokers have no quotas.
        from ottla.broker.network.within_quotas import is_exempt, within_quotas

        handled = self.respond(route, request, UNMEASURED)
        if is_exempt(route.api) or self.principal == INTERNAL:
            return handled
        return within_quotas(self._quotas, self._ports.clock, route.context, route.api, handled, size_bytes, self._client.throttle)

    async def _handled(self, route: Route, request: Any) -> Any:
        report = route.report
        come_ms = 0 if report is None else self._now_ms()
        try:
            try:
                response = await route.api.handle(self._services, request, route.context)
            except KafkaError as error:
                response = route.api.failed(request, route.context.version, error.code)
            if report is not None:
                report(self._services, come_ms, request, response)
        except RequestRefused:
            raise
        except Exception:
            return self._failed(route, request)
        return response

    def _failed(self, route: Route, request: Any) -> Any:
        self.bug("request_failed", route)
        return route.api.failed(request, route.context.version, Code.UNKNOWN_SERVER_ERROR)

    def bug(self, event: str, route: Route) -> None:
        """Log and count an unexpected exception. Called in an ``except`` block."""
        self._ports.lifecycle.bug(
            event,
            may_have_secrets=route.api.has_secrets,
            api=route.codec.name,
            version=route.context.version,
            peer=self._client.peer,
        )

    def encode(self, route: Route, correlation_id: int, response: Any) -> list[Buffer] | None:
        """Encode a response as pieces of a frame; None if the response cannot be encoded because of a bug."""
        try:
            return response_parts(route.codec, route.context.version, correlation_id, response)
        except Exception:
            self.bug("response_not_writable", route)
            return None

    # Decoding and encoding in a worker thread

    async def decode_in_steps(self, route: Route, frame: memoryview) -> tuple[Any, int]:
        """Decode a large request in a worker thread. Returns the request, and an estimate of its memory in bytes.

        Raises `DecodeError`.
        """
        decoded: list[tuple[Any, int]] = []

        def decode() -> None:
            request = decode_body(route.codec.decode_request, frame, route.body_at, route.context.version, may_trail=True)
            decoded.append((request, ELEMENT_BYTES * message_elements()))

        await in_thread(decode)
        return decoded[0]

    async def encode_in_steps(self, route: Route, correlation_id: int, response: Any) -> list[Buffer] | None:
        """Run `encode` in a worker thread."""
        encoded: list[list[Buffer]] = []
        try:
            await in_thread(
                lambda: encoded.append(merged(response_parts(route.codec, route.context.version, correlation_id, response)))
            )
        except Exception:
            self.bug("response_not_writable", route)
            return None
        return encoded[0]
