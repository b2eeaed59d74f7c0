"""Handles a request according to the `Verdict` of an interception, which may delay it or change its response.

Until the request has taken effect, no further request of the connection is handled. After that the request may be parked.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from ottla.broker.apis.api import Declared, RequestRefused
from ottla.broker.hooks.interception import Delay, Ending, IncomingRequest, Interception, Latch, RequestTopics, Verdict
from ottla.broker.loop.env import Clock, Timers
from ottla.broker.loop.stepping import Stepping, Work, raised
from ottla.broker.network.dispatch import Dispatching, Route
from ottla.broker.network.listener import Connections
from ottla.protocol.errors import Code
from ottla.protocol.steps import Pause, Step, Steps


class Ports(Protocol):
    clock: Clock
    timers: Timers
    stepping: Stepping

    @property
    def connections(self) -> Connections: ...

    @property
    def request_topics(self) -> RequestTopics: ...


class InterceptedClient(Protocol):
    """The part of a client's connection that an intercepted request uses."""

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
    dispatcher: Dispatching,
    route: Route,
    request: Any,
    size_bytes: int,
) -> Steps[Any] | None:
    """The coroutine that handles a request according to its verdict; None if the interception has no verdict."""
    incoming = IncomingRequest(
        api_key=route.api.key,
        version=route.context.version,
        client_id=route.context.client_id,
        connection_id=route.context.connection_id,
        request=request,
        size_bytes=size_bytes,
        refusal=partial(error_response, route.api),
        topics=ports.request_topics,
    )
    verdict = interception.intercept(incoming)
    if verdict is None:
        return None
    return _InterceptedRequest(ports, client, dispatcher, verdict, route).handle(request, size_bytes)


def error_response(api: Declared[Any], request: Any, version: int, code: Code) -> Any:
    """The error response to a request; None if it gets none, so that the connection is closed only after the verdict's delays."""
    try:
        return api.failed(request, version, code)
    except RequestRefused:
        return None


class _InterceptedRequest:
    __slots__ = ("_client", "_dispatcher", "_ports", "_route", "_verdict")

    def __init__(self, ports: Ports, client: InterceptedClient, dispatcher: Dispatching, verdict: Verdict, route: Route) -> None:
        self._ports = ports
        self._client = client
        self._dispatcher = dispatcher
        self._verdict = verdict
        self._route = route

    async def handle(self, request: Any, size_bytes: int) -> Any:
        """Handle the request; returns the response to send, or None to send no response. Raises `RequestRefused`."""
        verdict, client = self._verdict, self._client
        await self._wait_before(size_bytes)
        if verdict.is_unread and client.is_lost:
            return None
        if verdict.on_begin is not None:
            verdict.on_begin()
        if not verdict.takes_effect:
            response = verdict.response
        else:
            handled = self._dispatcher.respond(self._route, request if verdict.request is None else verdict.request, size_bytes)
            if verdict.ending is Ending.SILENCE:
                await self._until_parked(handled)
                return None
            try:
                response = await handled
            except RequestRefused:
                self._took_effect()
                raise
        self._took_effect()
        if verdict.ending is Ending.CUT:
            client.close("a fault closed the connection")
        if verdict.ending is not Ending.ANSWER:
            return None
        if response is None:
            if verdict.is_refused:
                raise RequestRefused("a fault refused a request that gets no response")
            return None
        if verdict.complete is not None:
            response = verdict.complete(response)
        await self._wait_after(response)
        if verdict.mute_ms > 0:
            client.mute(verdict.mute_ms)
        return response

    def _took_effect(self) -> None:
        if self._verdict.on_effect is not None:
            self._verdict.on_effect()

    @types.coroutine
    def _until_parked(self, handled: Steps[Any]) -> Generator[Step, None, None]:
        """Handle a request whose client gets no response. Once the request is parked, later responses do not wait for it."""
        failure: Exception | None = None
        while True:
            try:
                step = handled.send(None) if failure is None else handled.throw(failure)
            except StopIteration:
                self._took_effect()
                return
            if isinstance(step, Pause) and step.is_parked:
                Work(self._ports.stepping, handled, lambda _: self._took_effect(), raised).resume(step)
                return
            failure = None
            try:
                yield step
            except Exception as error:
                failure = error

    # Delaying requests and responses

    async def _wait_before(self, size_bytes: int) -> None:
        verdict, client = self._verdict, self._client
        if verdict.held_before is not None:
            held: Pause[None] = Pause()
            verdict.held_before.when_open(held.end)
            if verdict.is_unread:
                client.when_lost = held.end
            await held
            client.when_lost = None
            verdict.held_before.forget(held.end)
        await self._delayed([*verdict.delays_before, *self._rated(size_bytes)], is_parked=False)

    async def _wait_after(self, response: Any) -> None:
        """Wait until a test releases the response (`Latch`), and for its delays.

        Meanwhile the response's bytes count in the response budget, because they are in memory.
        """
        verdict = self._verdict
        if verdict.held_after is None and verdict.rate is None and not verdict.delays_after:
            return
        parts = self._dispatcher.encode(self._route, 0, response)
        size_bytes = 0 if parts is None else sum(map(len, parts))
        budget = self._ports.connections.response_budget
        budget.read(size_bytes)
        try:
            if verdict.held_after is not None:
                held: Pause[None] = Pause(is_parked=True)
                verdict.held_after.when_open(held.end)
                try:
                    await held
                finally:
                    verdict.held_after.forget(held.end)
            await self._delayed([*verdict.delays_after, *self._rated(size_bytes)], is_parked=True)
        finally:
            budget.read(-size_bytes)

    async def _delayed(self, delays: Iterable[Delay], *, is_parked: bool) -> None:
        """Wait for the delays one after the other. Opening the `Latch` of a delay ends the delay early."""
        for delay in delays:
            over: Pause[None] = Pause(is_parked=is_parked)
            timer = self._ports.timers.call_later(delay.ms, over.end)
            delay.ended_by.when_open(over.end)
            try:
                await over
            finally:
                timer.cancel()
                delay.ended_by.forget(over.end)

    def _rated(self, size_bytes: int) -> Iterator[Delay]:
        if self._verdict.rate is not None:
            wait_ms = self._verdict.rate.delay_ms(size_bytes, self._ports.clock.monotonic_ms())
            if wait_ms > 0:
                yield Delay(wait_ms, Latch())
