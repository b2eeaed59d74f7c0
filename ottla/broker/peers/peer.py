"""The connection to another broker or the controller: sends requests, and reconnects after the connection is lost.

The first request opens the connection. Each new connection begins with ApiVersions, because the peer's release may have changed.
With SASL this node then authenticates, and again before its session ends (KIP-368). If the connection cannot be opened, its
requests fail. If it is lost, the requests in flight fail: only their sender knows whether they may be sent again (Kafka's
NetworkClient and InterBrokerSendThread).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import structlog

from ottla.addresses import joined_address
from ottla.broker.loop.env import Clock, ConnectionAttempt, Randomness, Timer, Timers
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.network.framing import ReceiveBuffers
from ottla.broker.peers.backoff import Backoff
from ottla.broker.peers.channel import Channel
from ottla.broker.peers.requests import (
    AuthenticationRefused,
    Failure,
    OutOfOrder,
    PeerFailure,
    Request,
    RequestLimits,
    Requests,
    Then,
)
from ottla.broker.peers.states import PeerState, check_transition
from ottla.broker.peers.versions import Versions, decode_greeting, greeting_after, key_of, newest_own
from ottla.protocol.codec import API_VERSIONS_KEY, DECODE_FAILURES, decode_response_frame, request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from ottla.broker.peers.authentication import Authentication
    from ottla.broker.peers.security import PeerSecurity

SOFTWARE = "ottla"
SOFTWARE_VERSION = "0.1.0"

log = structlog.get_logger("peer")


class PeerEnv(Clock, Randomness, Timers, Protocol):
    """The part of `broker.loop.env.Env` that a peer uses."""

    def connect(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.BufferedProtocol],
        failed: Callable[[OSError], None],
        tls: ssl.SSLContext | None = None,
    ) -> ConnectionAttempt: ...


class PeerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one connection, times in ms. ``connect_ms`` limits connecting, ApiVersions and SASL together; ``request_ms`` is the
    default timeout of a request."""

    connect_ms: float = 10_000
    request_ms: float = 30_000
    first_backoff_ms: float = 50
    longest_backoff_ms: float = 1_000
    requests: RequestLimits = RequestLimits()


class Peer:
    """A connection to one address. Each request gets its response by a callback, never before `send` returns."""

    def __init__(
        self,
        env: PeerEnv,
        address: tuple[str, int],
        *,
        client_id: str,
        bug: Callable[[], None],
        buffers: ReceiveBuffers,
        security: PeerSecurity | None = None,
        limits: PeerLimits | None = None,
    ) -> None:
        """``bug`` is called in an ``except`` block when a callback raises. ``buffers`` are shared by all connections.
        ``security`` is None for a peer without TLS and SASL."""
        self._env = env
        self._errors = RepeatedErrors(env, log)
        self.host, self.port = address
        self._client_id = client_id
        self._bug = bug
        self._buffers = buffers
        self._security = security
        self._authentication: Authentication | None = None
        # Time in ms at which this node authenticates again; None if its session does not end.
        self._renew_ms: float | None = None
        self._limits = PeerLimits() if limits is None else limits
        self._requests = Requests(self._limits.requests)
        self._backoff = Backoff(first_ms=self._limits.first_backoff_ms, longest_ms=self._limits.longest_backoff_ms)
        self.state = PeerState.IDLE
        self._attempt: ConnectionAttempt | None = None
        self._channel: Channel | None = None
        self._versions: Versions | None = None
        self._greeting_version = 0
        # The timer that limits connecting or authenticating, or that ends the delay before the next attempt.
        self._phase_timer: Timer | None = None
        self._deadline_timer: Timer | None = None
        self._deadline_ms = 0.0

    def __repr__(self) -> str:
        return joined_address((self.host, self.port))

    def send(
        self,
        message: Any,
        then: Then,
        *,
        timeout_ms: float | None = None,
        least_version: int = 0,
        most_version: int | None = None,
    ) -> None:
        """Send a request of `protocol.messages`; ``then`` is called with the response or a `PeerFailure`.

        The version is the newest that this node and the peer support, from ``least_version`` to ``most_version``. The timeout
        includes the time to connect.
        """
        timeout_ms = self._limits.request_ms if timeout_ms is None else timeout_ms
        request = Request(
            key=key_of(message),
            message=message,
            then=then,
            deadline_ms=self._env.monotonic_ms() + timeout_ms,
            least_version=least_version,
            most_version=most_version,
        )
        if self.state is PeerState.CLOSED:
            self._fail_soon(request, Failure.CLOSED, "this broker closed the connection")
        elif not self._requests.add(request):
            self._fail_soon(request, Failure.TOO_MANY, f"too many requests to {self} are waiting")
        else:
            self._watch_deadline(request.deadline_ms)
            if self.state is PeerState.IDLE:
                self._connect()
            elif self.state is PeerState.READY:
                self._send_waiting()

    def offered(self, key: int) -> int | None:
        """The newest version of an API that this node and the peer support; None without a common version or a connection."""
        return None if self._versions is None else self._versions.choose(key)

    def reconnect(self, reason: str) -> None:
        """Close a connection whose peer may no longer exist. Requests in flight fail; the next request reconnects."""
        if self.state is PeerState.READY:
            self._lose(reason)

    def close(self) -> None:
        """Close the connection for good. Requests without a response fail."""
        if self.state is PeerState.CLOSED:
            return
        self._become(PeerState.CLOSED)
        self._disconnect()
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        for request in self._requests.take_all():
            self._fail_soon(request, Failure.CLOSED, "this broker closed the connection")

    def _send_waiting(self) -> None:
        while self.state is PeerState.READY and self._channel is not None and self._versions is not None:
            if self._renew_ms is not None and len(self._requests) and self._env.monotonic_ms() >= self._renew_ms:
                if not self._requests.in_flight_bytes:
                    self._authenticate(self._channel, self._versions)
                return
            request = self._requests.next()
            if request is None:
                return
            chosen = self._versions.choose(request.key, request.least_version, request.most_version)
            if chosen is None:
                self._fail_soon(request, Failure.UNSUPPORTED_VERSION, f"{self} supports no suitable version of API {request.key}")
                continue
            correlation_id = self._requests.correlation_id()
            frame = request_frame(request.key, chosen, correlation_id, self._client_id, request.message)
            request.version, request.size_bytes = chosen, len(frame)
            self._requests.sent(request, correlation_id)
            self._channel.write(frame)

    def _become(self, state: PeerState) -> None:
        check_transition(self.state, state)
        self.state = state

    def _connect(self) -> None:
        self._become(PeerState.CONNECTING)
        self._phase_timer = self._env.call_later(self._limits.connect_ms, self._connecting_timed_out)
        tls = None if self._security is None else self._security.tls
        self._attempt = self._env.connect(self.host, self.port, self._new_channel, self._not_connected, tls)

    def _new_channel(self) -> Channel:
        self._channel = Channel(self, self._buffers, self._limits.requests.response_bytes)
        return self._channel

    def _not_connected(self, error: OSError) -> None:
        self._attempt = None
        self._lose_by(error, str(error))

    def _connecting_timed_out(self) -> None:
        self._lose(f"no connection within {self._limits.connect_ms:.0f} ms")

    def opened(self, channel: Channel) -> None:
        """Send ApiVersions as the first request of the connection."""
        self._attempt = None
        self._become(PeerState.GREETING)
        self._greet(newest_own(API_VERSIONS_KEY))

    def _greet(self, in_version: int) -> None:
        assert self._channel is not None
        self._greeting_version = in_version
        greeting = ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version=SOFTWARE_VERSION)
        self._channel.write(request_frame(API_VERSIONS_KEY, in_version, 0, self._client_id, greeting))

    def received(self, channel: Channel, frame: memoryview) -> None:
        """Process a response to ApiVersions, SASL, or another request."""
        try:
            if self.state is PeerState.GREETING:
                self._greeted(channel, frame)
            elif self.state is PeerState.AUTHENTICATING:
                self._authenticated(channel, frame)
            else:
                self._answered(channel, frame)
        except (OutOfOrder, *DECODE_FAILURES) as error:
            channel.fail(f"a response cannot be decoded: {error}")

    def _greeted(self, channel: Channel, frame: memoryview) -> None:
        _, response = decode_greeting(self._greeting_version, frame)
        if response.error_code == Code.UNSUPPORTED_VERSION:
            again = greeting_after(response)
            if again is None or again >= self._greeting_version:
                channel.fail("the peer supports no version of ApiVersions that this broker supports")
            else:
                self._greet(again)
            return
        if response.error_code != Code.NONE:
            channel.fail(f"ApiVersions failed with error {response.error_code}")
            return
        self._versions = Versions(response)
        self._authenticate(channel, self._versions)

    def _authenticate(self, channel: Channel, versions: Versions) -> None:
        try:
            address = (self.host, self.port)
            begun = None if self._security is None else self._security.authentication(address, versions, self._client_id)
        except AuthenticationRefused as error:
            self._lose(str(error), Failure.REFUSED)
            return
        if begun is None:
            self._accepted()
            return
        self._become(PeerState.AUTHENTICATING)
        self._authentication = begun
        if self._phase_timer is None:
            self._phase_timer = self._env.call_later(self._limits.connect_ms, self._connecting_timed_out)
        channel.write(begun.frame)

    def _authenticated(self, channel: Channel, frame: memoryview) -> None:
        begun = self._authentication
        assert begun is not None
        try:
            following = begun.take(frame)
        except AuthenticationRefused as error:
            self._lose(str(error), Failure.REFUSED)
            return
        if following is not None:
            channel.write(following)
            return
        self._renew_ms = None
        if begun.session_ms:
            from ottla.client.security.authentication import RENEW_AT

            self._renew_ms = self._env.monotonic_ms() + begun.session_ms * RENEW_AT
        self._accepted()

    def _accepted(self) -> None:
        self._authentication = None
        self._end_phase()
        self._become(PeerState.READY)
        self._backoff.reset()
        if self._security is not None:
            self._security.accepted(repr(self))
        self._send_waiting()

    def _answered(self, channel: Channel, frame: memoryview) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        request = self._requests.awaited(correlation_id)
        _, response = decode_response_frame(request.key, request.version, frame)
        self._requests.answered(correlation_id)
        self._finish(request, response)
        if self._channel is channel:
            self._send_waiting()

    def lost(self, channel: Channel, reason: str) -> None:
        """Handle the loss of the connection."""
        self._lose_by(channel.error, reason)

    def _lose_by(self, error: Exception | None, reason: str) -> None:
        """Handle a lost connection. A TLS error that a certificate or a setting causes is `Failure.REFUSED`."""
        refusal = None
        if error is not None and self._security is not None:
            refusal = self._security.refusal(error, (self.host, self.port))
        if refusal is None:
            self._lose(reason)
        else:
            self._lose(refusal, Failure.REFUSED)

    def _lose(self, reason: str, kind: Failure = Failure.DISCONNECTED) -> None:
        """Handle a lost connection: requests in flight fail. Waiting requests also fail if the connection was never ready."""
        was_ready = self.state is PeerState.READY
        failed = self._requests.take_in_flight() if was_ready else self._requests.take_all()
        self._disconnect()
        if was_ready and not failed and not len(self._requests):
            # Peers close connections that were idle for long. The next request opens another connection.
            self._become(PeerState.IDLE)
            return
        self._back_off(reason, kind)
        for request in failed:
            self._fail_soon(request, kind, f"{self}: {reason}")

    def _back_off(self, reason: str, kind: Failure = Failure.DISCONNECTED) -> None:
        self._become(PeerState.BACKING_OFF)
        if kind is Failure.REFUSED and self._security is not None:
            self._security.refused(repr(self), reason)
        elif not self._backoff.failures:
            self._errors.failed("peer_disconnected", reason, level="info", peer=repr(self))
        chance = int.from_bytes(self._env.random_uuid()[:4], "big") / (1 << 32)
        self._phase_timer = self._env.call_later(self._backoff.next_ms(chance), self._try_again)

    def _try_again(self) -> None:
        self._phase_timer = None
        if len(self._requests):
            self._connect()
        else:
            self._become(PeerState.IDLE)

    def _disconnect(self) -> None:
        self._end_phase()
        self._versions = self._authentication = self._renew_ms = None
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _end_phase(self) -> None:
        timer, self._phase_timer = self._phase_timer, None
        if timer is not None:
            timer.cancel()

    def _watch_deadline(self, deadline_ms: float) -> None:
        """Start one timer for the earliest deadline of all requests."""
        if self._deadline_timer is not None:
            if self._deadline_ms <= deadline_ms:
                return
            self._deadline_timer.cancel()
        self._deadline_ms = deadline_ms
        # A clock may count whole milliseconds. Rounding up ensures that the timer never fires before the deadline.
        delay_ms = max(0, ceil(deadline_ms - self._env.monotonic_ms()))
        self._deadline_timer = self._env.call_later(delay_ms, self._deadline_passed)

    def _deadline_passed(self) -> None:
        self._deadline_timer = None
        now_ms = self._env.monotonic_ms()
        reason = f"{self} did not respond in time"
        for request in self._requests.take_overdue(now_ms):
            self._fail_soon(request, Failure.TIMED_OUT, reason)
        if self._requests.is_answer_overdue(now_ms):
            # Responses arrive in order, so none can follow the overdue response. As in Kafka, the connection is closed.
            in_flight = self._requests.take_in_flight()
            self._disconnect()
            self._back_off(reason)
            for request in in_flight:
                is_overdue = request.deadline_ms <= now_ms
                self._fail_soon(request, Failure.TIMED_OUT if is_overdue else Failure.DISCONNECTED, reason)
        deadline_ms = self._requests.next_deadline_ms()
        if deadline_ms is not None:
            self._watch_deadline(deadline_ms)

    def _fail_soon(self, request: Request, kind: Failure, reason: str) -> None:
        self._env.call_soon(lambda: self._finish(request, PeerFailure(kind, reason)))

    def _finish(self, request: Request, answer: Any) -> None:
        try:
            request.then(answer)
        except Exception:
            self._bug()
