"""Dispatches the requests of one connection on a listener with SASL: authenticates the client, then passes its requests on.

Before the client is authenticated only ApiVersions, SaslHandshake and SaslAuthenticate are handled (`security.sasl.server`). After
SaslHandshake 0 the client's tokens are bare frames, without request headers.

A client that is refused gets its response after ``connection.failed.authentication.delay.ms``, and is then disconnected. Meanwhile
the connection handles no further request, so guessing passwords takes time.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Protocol

from ottla.broker.apis.api import Declared, RequestContext, RequestRefused, WaitsFor
from ottla.broker.apis.authorisation import UNRESTRICTED
from ottla.broker.network.dispatch import UNMEASURED, Dispatcher, Route
from ottla.protocol.codec import API_VERSIONS_KEY, api
from ottla.protocol.errors import Code
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse
from ottla.protocol.primitives import Buffer
from ottla.protocol.steps import Pause, Steps
from ottla.security.principal import ANONYMOUS, KafkaPrincipal
from ottla.security.sasl.server import SASL_AUTHENTICATE, SASL_HANDSHAKE, SaslServer, SaslTerms, TokenAnswer
from ottla.security.sasl.states import State

_KEY, _SIZE = Struct(">h"), Struct(">i")


class SaslRequester(Protocol):
    """A client's connection, and the parts of the broker that its authentication uses."""

    @property
    def peer(self) -> str: ...

    def dispatcher(self, principal: KafkaPrincipal, *, is_by_token: bool = False) -> Dispatcher:
        """A dispatcher that handles the requests of an authenticated principal. ``is_by_token``: see `RequestContext`."""
        ...

    def limit_frames(self, *, is_authenticated: bool) -> None: ...

    def delay_refusal(self, then: Pause[None]) -> None:
        """End ``then``, which delays a refusal, after ``connection.failed.authentication.delay.ms``."""
        ...

    def authenticated(
        self, principal: KafkaPrincipal, mechanism: str, *, reauthentication_ms: int | None, is_repeatable: bool
    ) -> None:
        """Count and log a client that has authenticated.

        ``reauthentication_ms``: how long a re-authentication took; None for the first authentication. ``is_repeatable``: whether
        the client's version of SaslAuthenticate allows a re-authentication (KIP-368).
        """
        ...

    def failed(self, *, is_again: bool) -> None:
        """Count a client whose authentication failed."""
        ...

    def refused(self, reason: str, *, is_again: bool) -> None:
        """Count and log a client that was refused, and close its connection once its response is sent."""
        ...

    def expired(self) -> None:
        """Count a client that is disconnected because its session has ended."""
        ...

    def nonce(self) -> str: ...

    def now_ms(self) -> int: ...

    def steady_ms(self) -> int: ...


async def _unused(services: object, request: object, context: RequestContext) -> None:
    """Do nothing: the dispatcher itself handles SASL tokens that come without a request header."""


def _failed(request: object, version: int, code: Code) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=None)


BARE_TOKEN: Declared[Any] = Declared(
    key=SASL_AUTHENTICATE,
    handle=_unused,
    failed=_failed,
    authorisation=UNRESTRICTED,
    waits_for=WaitsFor.HANDLER,
    has_secrets=True,
)
"""A bare token is handled like a SaslAuthenticate request, so that faults for that API apply to it as well."""


class SaslDispatcher:
    """The dispatcher of one connection of a listener with SASL (`dispatch.Dispatching`)."""

    __slots__ = ("_bare", "_client", "_inner", "_server")

    def __init__(self, terms: SaslTerms, client: SaslRequester) -> None:
        self._client = client
        self._server = SaslServer(terms)
        self._inner = client.dispatcher(ANONYMOUS)
        context = RequestContext(version=0, client_id="", client_host=client.peer, connection_id=0, listener="")
        self._bare = Route(api=BARE_TOKEN, codec=api(SASL_AUTHENTICATE), context=context, header=b"", body_at=0, report=None)
        client.limit_frames(is_authenticated=False)

    @property
    def principal(self) -> KafkaPrincipal:
        return self._inner.principal

    @property
    def client_ids(self) -> frozenset[str]:
        return self._inner.client_ids

    def end_session(self) -> bool:
        return self._server.end_session(self._client.steady_ms())

    def frame_refused(self, size_bytes: int) -> None:
        # As in Kafka, an empty frame is a malformed request, and does not count as a failed authentication.
        if size_bytes and self._server.state is not State.COMPLETE:
            self._client.failed(is_again=self._server.is_again)

    def route(self, frame: memoryview) -> tuple[Route, int]:
        server = self._server
        if server.state is State.COMPLETE:
            if server.ends_ms is None:
                return self._inner.route(frame)
            return self._route_of_session(frame)
        if server.state is State.AUTHENTICATE and not server.has_headers:
            return self._bare, 0
        return self._route_before(frame)

    def _route_of_session(self, frame: memoryview) -> tuple[Route, int]:
        """Return the route and correlation id of a request on a connection whose session has a time limit (KIP-368).

        SaslHandshake begins a re-authentication.
        """
        server, now_ms = self._server, self._client.steady_ms()
        if _KEY.unpack_from(frame)[0] == SASL_HANDSHAKE and server.reauthenticate(now_ms):
            self._client.limit_frames(is_authenticated=False)
            return self._route_before(frame)
        if server.has_ended(now_ms):
            self._client.expired()
            raise RequestRefused("the session has ended, and the client did not authenticate again")
        return self._inner.route(frame)

    def _route_before(self, frame: memoryview) -> tuple[Route, int]:
        """Return the route and correlation id before authentication. Raises `RequestRefused` for a request that is not expected
        then."""
        (key,) = _KEY.unpack_from(frame)
        server = self._server
        if server.state is State.FAILED or not server.expects(key):
            state = server.state
            if state is State.REAUTH_BAD_MECHANISM:
                self._client.failed(is_again=True)
            server.fail()
            raise RequestRefused(f"a request of API key {key} arrived before authentication ({state.value})")
        return self._inner.route(frame)

    def decode(self, route: Route, frame: memoryview) -> Any:
        if route is self._bare:
            return SaslAuthenticateRequest(auth_bytes=bytes(frame))
        return self._inner.decode(route, frame)

    def is_small(self, route: Route, frame: memoryview) -> bool:
        # Before authentication every response is small, and need not wait for memory.
        return self._server.state is not State.COMPLETE or self._inner.is_small(route, frame)

    def respond(self, route: Route, request: Any, size_bytes: int) -> Steps[Any]:
        if self._server.state is State.COMPLETE:
            return self._inner.respond(route, request, size_bytes)
        return self._respond_before(route, request)

    async def _respond_before(self, route: Route, request: Any) -> Any:
        server, key, version = self._server, route.api.key, route.context.version
        if key == API_VERSIONS_KEY and server.state is not State.AUTHENTICATE:
            response = await self._inner.respond(route, request, UNMEASURED)
            server.versions_answered(response.error_code)
            return response
        reason = ""
        if key == SASL_HANDSHAKE and server.state is not State.AUTHENTICATE:
            code = server.handshake(request.mechanism, version, self._client.nonce())
            response = SaslHandshakeResponse(error_code=code, mechanisms=server.mechanisms)
            reason = f"unsupported SASL mechanism {request.mechanism[:100]}"
        elif key == SASL_AUTHENTICATE:
            try:
                answer = self._take(bytes(request.auth_bytes), version)
            except Exception as error:
                # A ValueError would count as a request that cannot be decoded, and be logged with its text.
                raise RuntimeError("a bug in an authentication") from error
            response, reason = _response(answer), answer.reason
        else:
            reason = f"Unexpected Kafka request of type {route.api.name} during SASL authentication."
            response = route.api.failed(request, version, Code.ILLEGAL_SASL_STATE)
            server.fail()
        if server.state is State.FAILED:
            await self._refuse(reason)
        return response

    def _take(self, token: bytes, version: int) -> TokenAnswer:
        """Handle a token of the client. After the last token, the client's requests have its principal."""
        server, client = self._server, self._client
        was_again, was_by_token = server.is_again, server.is_by_token
        steady_ms = client.steady_ms()
        answer = server.token(token, client.now_ms(), steady_ms)
        if server.state is State.COMPLETE:
            # A re-authentication keeps the principal, but the same user may use a password first and a delegation token later.
            if not was_again or server.is_by_token != was_by_token:
                self._inner = client.dispatcher(server.principal, is_by_token=server.is_by_token)
            took_ms = None if server.began_ms is None else steady_ms - server.began_ms
            client.authenticated(server.principal, server.mechanism, reauthentication_ms=took_ms, is_repeatable=version > 0)
            client.limit_frames(is_authenticated=True)
        return answer

    async def _refuse(self, reason: str) -> None:
        over: Pause[None] = Pause()
        self._client.delay_refusal(over)
        await over
        self._client.refused(reason, is_again=self._server.is_again)

    def encode(self, route: Route, correlation_id: int, response: Any) -> list[Buffer] | None:
        if route is not self._bare:
            return self._inner.encode(route, correlation_id, response)
        # A client of SaslHandshake 0 cannot read an error, so it is only disconnected.
        return [] if response.error_code else [_SIZE.pack(len(response.auth_bytes)), response.auth_bytes]

    async def decode_in_steps(self, route: Route, frame: memoryview) -> tuple[Any, int]:
        return await self._inner.decode_in_steps(route, frame)

    async def encode_in_steps(self, route: Route, correlation_id: int, response: Any) -> list[Buffer] | None:
        return await self._inner.encode_in_steps(route, correlation_id, response)


def _response(answer: TokenAnswer) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=answer.code,
        error_message=answer.message,
        auth_bytes=answer.token,
        session_lifetime_ms=answer.session_lifetime_ms,
    )
