"""Handles a request according to the `Verdict` of an interception, which may delay it or change its response.

The connection handles requests with a verdict in steps, so that their bytes stay in place, and no further request of the connection
is handled before they have taken effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import GeneratorType
from typing import Any, Protocol

from ottla.broker.hooks.interception import Delay, Ending, IncomingRequest, Interception, Latch, RequestTopics, Verdict
from ottla.broker.loop.env import Clock, Timers
from ottla.broker.loop.pending_response import Later
from ottla.broker.network.dispatch import Dispatcher, Route
from ottla.broker.network.listener import Connections
from ottla.protocol.steps import Pause, Steps

LARGE_REQUEST_BYTES = 1 << 16
"""The response to a larger request is encoded in a worker thread, because it may have as many elements as the request."""


class Ports(Protocol):
    clock: Clock
    timers: Timers

    @property
    def connections(self) -> Connections: ...

    @property
    def request_topics(self) -> RequestTopics: ...


class InterceptedClient(Protocol):
    """The connection of the request."""

    when_lost: Callable[[], None] | None
    """Called when the connection is closed."""

    @property
    def is_lost(self) -> bool: ...

    def close(self, reason: str) -> None: ...

    def mute(self, for_ms: float) -> None: ...


def intercepted(
    interception: Interception,
    ports: Ports,
    client: InterceptedClient,
    dispatcher: Dispatcher,
    route: Route,
    correlation_id: int,
    request: Any,
    size_bytes: int,
) -> Steps[Later | None] | None:
    """The steps that handle a request according to its verdict; None if the interception has no verdict."""
    incoming = IncomingRequest(
        api_key=route.api.key,
        version=route.context.version,
        client_id=route.context.client_id,
        connection_id=route.context.connection_id,
        request=request,
        size_bytes=size_bytes,
        refusal=route.api.failed,
        topics=ports.request_topics,
    )
    verdict = interception.intercept(incoming)
    if verdict is None:
        return None
    return _InterceptedRequest(ports, client, dispatcher, verdict, route, correlation_id).steps(request, size_bytes)


class _InterceptedRequest:
    """One request and its verdict."""

    __slots__ = ("_client", "_correlation_id", "_dispatcher", "_ports", "_route", "_verdict")

    def __init__(
        self, ports: Ports, client: InterceptedClient, dispatcher: Dispatcher, verdict: Verdict, route: Route, correlation_id: int
    ) -> None:
        self._ports = ports
        self._client = client
        self._dispatcher = dispatcher
        self._verdict = verdict
        self._route = route
        self._correlation_id = correlation_id

    def steps(self, request: Any, size_bytes: int) -> Steps[Later | None]:
        """Handle the request. Returns a `Later` with the response; None for no response."""
        verdict = self._verdict
        is_large = size_bytes > LARGE_REQUEST_BYTES
        yield from self._waited(verdict.held_before, [*verdict.delays_before, *self._rated(size_bytes)])
        if verdict.is_unread and self._client.is_lost:
            return None
        if verdict.on_begin is not None:
            verdict.on_begin()
        if not verdict.takes_effect:
            return self._ended(verdict.response, is_large=is_large)
        request = request if verdict.request is None else verdict.request
        response = self._dispatcher.handle(self._route, request)
        is_large = is_large or type(response) is GeneratorType
        response = yield from self._dispatcher.respond_in_steps(self._route, request, response)
        if type(response) is not Later:
            return self._ended(response, is_large=is_large)
        parked = response
        if verdict.ending is Ending.SILENCE:
            # The client gets no response, so later responses need not wait for this handler.
            parked.on_ready(lambda _: self._took_effect())
            return None
        answer = Later(is_durable=parked.is_durable, on_abandoned=parked.abandon)
        parked.on_ready(lambda told: self._finish(told, answer, is_large=parked.is_large))
        return answer

    def _waited(self, latch: Latch | None, delays: Sequence[Delay]) -> Steps[None]:
        if latch is not None:
            held = Pause()
            latch.when_open(held.end)
            if self._verdict.is_unread:
                self._client.when_lost = held.end
            yield held
            self._client.when_lost = None
            latch.forget(held.end)
        if delays:
            delayed = Pause()
            self._after(delays, delayed.end)
            yield delayed

    def _after(self, delays: Sequence[Delay], then: Callable[[], None]) -> None:
        """Call ``then`` after each delay has passed or was ended."""
        if not delays:
            then()
            return
        delay = delays[0]

        def over() -> None:
            timer.cancel()
            delay.ended_by.forget(over)
            self._after(delays[1:], then)

        timer = self._ports.timers.call_later(delay.ms, over)
        delay.ended_by.when_open(over)

    def _rated(self, size_bytes: int) -> Iterator[Delay]:
        if self._verdict.rate is not None:
            wait_ms = self._verdict.rate.delay_ms(size_bytes, self._ports.clock.monotonic_ms())
            if wait_ms > 0:
                yield Delay(wait_ms, Latch())

    # the answer

    def _took_effect(self) -> None:
        if self._verdict.on_effect is not None:
            self._verdict.on_effect()

    def _ended(self, response: Any, *, is_large: bool) -> Later | None:
        if response is None and self._verdict.ending is Ending.ANSWER:
            self._took_effect()
            return None
        answer = Later()
        self._finish(response, answer, is_large=is_large)
        return None if self._verdict.ending is not Ending.ANSWER else answer

    def _finish(self, response: Any, answer: Later, *, is_large: bool) -> None:
        """Finish a request that has taken effect or is not handled: change, delay or drop its response."""
        verdict = self._verdict
        self._took_effect()
        if verdict.ending is Ending.CUT:
            self._client.close("a fault closed it")
        if verdict.ending is not Ending.ANSWER:
            return
        if verdict.complete is not None:
            response = verdict.complete(response)
        answer.is_large = is_large
        if verdict.held_after is None and verdict.rate is None and not verdict.delays_after:
            self._send(response, answer)
        else:
            self._send_later(response, answer)

    def _send_later(self, response: Any, answer: Later) -> None:
        """Send a response after the verdict's delays.

        Until then its bytes count in the response budget, because they are in memory.
        """
        parts = self._dispatcher.encode(self._route, self._correlation_id, response)
        size_bytes = 0 if parts is None else sum(map(len, parts))
        budget, verdict, is_over = self._ports.connections.response_budget, self._verdict, False
        latch = verdict.held_after or _OPEN
        delays = [*verdict.delays_after, *self._rated(size_bytes)]

        def over() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                budget.read(-size_bytes)

        def send() -> None:
            over()
            self._send(response, answer)

        def wait() -> None:
            self._after(() if is_over else delays, send)

        def given_up() -> None:
            over()
            latch.forget(wait)

        budget.read(size_bytes)
        answer.on_abandoned = given_up
        latch.when_open(wait)

    def _send(self, response: Any, answer: Later) -> None:
        answer.resolve(response)
        if self._verdict.mute_ms > 0:
            self._client.mute(self._verdict.mute_ms)


_OPEN = Latch()
_OPEN.open()
