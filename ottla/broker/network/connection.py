"""One client's connection: receives frames, dispatches requests, and sends the responses in the order of the requests.

A request is handled while its bytes are in a receive buffer. So a handler may use views into the buffer, and must copy bytes that
it keeps longer. The connection reads and handles no further request while the client does not read its responses, while a request
waits without being parked, or while memory is short (`network.pause_reasons`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from ottla.addresses import client_address
from ottla.broker.apis.api import RequestRefused, WaitsFor
from ottla.broker.hooks.interception import Interception, RequestTopics
from ottla.broker.limits.memory_budgets import SMALL_BYTES
from ottla.broker.loop.env import Timers
from ottla.broker.loop.stepping import Stepping, Work
from ottla.broker.network import dispatch
from ottla.broker.network.answers import Answers, Slot, merged
from ottla.broker.network.connection_memory import ConnectionMemory
from ottla.broker.network.dispatch import ELEMENT_BYTES, Dispatcher, Dispatching, Route, UnsupportedApiVersions
from ottla.broker.network.framing import Frames, FrameSizeError
from ottla.broker.network.intercepted import intercepted
from ottla.broker.network.listener import Connections
from ottla.broker.network.pause_reasons import Hold
from ottla.broker.network.throttle import Throttle
from ottla.protocol.codec import DECODE_FAILURES
from ottla.protocol.primitives import Buffer, TooManyElements, message_elements
from ottla.protocol.steps import Pause, Step, Steps

WRITE_HIGH_BYTES = 4 << 20
"""Maximum size in bytes of responses that a client has not read. If it is exceeded, no further request of the client is handled."""
JOIN_BELOW_BYTES = 1 << 16
"""Responses with a total size below this, in bytes, are joined and written as one buffer."""
SLICE_MS = 2.0
"""Time in ms for which a connection handles requests that arrived together before other connections have their turn."""

NOT_ENCODED = "a response cannot be encoded"
NOT_DURABLE = "a write that the response depends on may be lost"


S = TypeVar("S")


class Ports(dispatch.Ports[S], Protocol[S]):
    """The parts of a server that a connection needs besides dispatching. ``S`` is the type of the handlers' services."""

    timers: Timers
    stepping: Stepping
    connections: Connections
    interception: Interception | None

    @property
    def request_topics(self) -> RequestTopics: ...


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of one client's connection. ``secured``: how the client authenticates; None without authentication."""

    def __init__(self, ports: Ports[S], listener: str, secured: dispatch.Secured | None = None) -> None:
        self._secured = secured
        self._ports: Ports[Any] = ports
        self._listener = listener
        self._interception = ports.interception
        connections = ports.connections
        self._frames = Frames(connections.buffers, ports.live_config.settings.socket_request_max_bytes)
        self._answers = Answers()
        self._request_budget = connections.request_budget
        self._response_budget = connections.response_budget
        self._memory = ConnectionMemory(self._frames, self._answers, self._request_budget, self._response_budget)
        self._transport: asyncio.Transport | None = None
        self._is_open = False
        self._is_reading, self._is_handling = True, False
        self._holds = 0
        self._written_bytes = 0
        self._throttle = Throttle(ports.clock, ports.timers, self._hold, self._release)
        self.when_lost: Callable[[], None] | None = None
        self.connection_id = 0
        self.peer = ""
        self.last_tick = connections.tick

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self._is_open = True
        peer = transport.get_extra_info("peername")
        self.peer = client_address(peer[0]) if peer else ""
        self._ports.connections.opened(self, self._listener, self._ports.quotas, self._throttle.begin)
        self.as_client = dispatch.Client(self.peer, self.connection_id, self._throttle.begin)
        plain = Dispatcher(self._ports, self._listener, self.as_client)
        self.dispatcher: Dispatching = plain if self._secured is None else self._secured.dispatcher(self, self._frames.limit)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._is_open = False
        self._response_budget.remove(self)
        self._throttle.end()
        if not self._holds & Hold.STEPS:
            self._memory.release(self)
        self._answers.abandon()
        self._ports.connections.closed(self)
        if self.when_lost is not None:
            self.when_lost()

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        room = self._frames.room()
        if self._request_budget.is_used_up and not self._frames.own_bytes:
            # The memory for requests is used up. Read at most `SMALL_BYTES`, which every connection may keep.
            return room[:SMALL_BYTES]
        return room

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        self.last_tick = self._ports.connections.tick
        if self._is_open and not self._holds:
            self._handle_requests()

    def pause_writing(self) -> None:
        self._memory.note_unsent(self, self.unsent_bytes())
        self._hold(Hold.PEER)

    def resume_writing(self) -> None:
        self._memory.note_unsent(self, self.unsent_bytes())
        self._release(Hold.PEER)

    @property
    def is_lost(self) -> bool:
        return self._transport is None

    @property
    def is_closing(self) -> bool:
        """Whether the connection was closed and its last responses are still being sent."""
        return not self._is_open and self._transport is not None

    def close(self, reason: str) -> None:
        """Handle no further request, and close the connection after all finished responses were sent."""
        if self._is_open and self._transport is not None:
            self._ports.connections.errors.failed("connection_closed", reason, key=self.peer, level="info", peer=self.peer)
            self._flush()
            self._is_open = False
            # The client's time limit for reading its last responses begins now (`Connections.close_idle`).
            self.last_tick = self._ports.connections.tick
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close the connection immediately, and drop responses that were not sent."""
        if self._transport is not None:
            self._ports.connections.errors.failed("connection_aborted", reason, key=self.peer, peer=self.peer)
            self._is_open = False
            self._transport.abort()

    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def sent_bytes(self) -> int:
        return self._written_bytes - self.unsent_bytes()

    # Pausing the connection

    def _hold(self, reason: int) -> None:
        self._holds |= reason
        if self._is_reading and self._is_open and self._transport is not None:
            self._is_reading = False
            self._transport.pause_reading()
        if self._memory.is_charged:
            # The broker no longer reads the socket, so the client's unfinished frame must not count as stalled.
            self._memory.charge(self)

    def _release(self, reason: int) -> None:
        """Clear one reason of a pause (`Hold`). If no reason is left, handle and read requests again."""
        if self._holds & reason:
            self._holds &= ~reason
            self._go_on()

    def go_on(self) -> None:
        """Continue after a wait for memory, because a budget may have room again."""
        self._release(Hold.REQUESTS | Hold.RESPONSES)

    def _go_on(self) -> None:
        if not self._holds and not self._is_handling and self._is_open:
            self._handle_requests()

    # Handling requests

    def _handle_requests(self) -> None:
        """Handle the frames that have arrived, until the time slice is over or the connection is paused (`Hold`)."""
        frames, began_ms = self._frames, 0.0
        self._is_handling = True
        try:
            while not self._holds and (frame := frames.next()) is not None:
                self._request(frame)
                if not frames.unread_bytes or not self._is_open:
                    break
                if not self._holds:
                    # If several requests have arrived together, check the time slice and the unread responses after each request.
                    began_ms = began_ms or self._ports.clock.monotonic_ms()
                    self._make_way(began_ms)
        except FrameSizeError as error:
            self.dispatcher.frame_refused(error.size_bytes)
            self.close(str(error))
        finally:
            self._is_handling = False
        if not self._holds & Hold.STEPS and (reason := self._memory.settle(self, is_held=self._holds != 0)):
            self._hold(reason)
        self._flush()
        if not self._holds and not self._is_reading and self._is_open and self._transport is not None:
            self._is_reading = True
            self._transport.resume_reading()

    def _make_way(self, began_ms: float) -> None:
        """Pause the connection if too many requests wait, or if its time slice or the limit of response bytes is used up.

        During the pause the transport reports if the client does not read its responses.
        """
        if self._memory.too_much_waits():
            self._hold(Hold.WAITING)
            return
        is_late = self._ports.clock.monotonic_ms() - began_ms >= SLICE_MS
        if is_late or sum(map(len, self._answers.out)) >= WRITE_HIGH_BYTES:
            self._hold(Hold.TURN)
            self._ports.stepping.run(self._next_turn(), failed=self._failed)

    async def _next_turn(self) -> None:
        self._release(Hold.TURN)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, RequestRefused):
            self.close(str(error))
            return
        if isinstance(error, DECODE_FAILURES):
            self.close(f"a request cannot be decoded: {error}")
            return
        self._ports.lifecycle.bug("connection_failed", may_have_secrets=True, peer=self.peer)
        self.close("an unexpected error")

    def _request(self, frame: memoryview) -> None:
        dispatcher = self.dispatcher
        try:
            route, correlation_id = dispatcher.route(frame)
            if route.api.is_bulky and self._response_budget.is_used_up and not dispatcher.is_small(route, frame):
                self._frames.put_back(frame)
                self._response_budget.wait(self.go_on)
                self._hold(Hold.RESPONSES)
                return
            request = dispatcher.decode(route, frame)
        except UnsupportedApiVersions as refused:
            self._answers.put(refused.parts)
            return
        except TooManyElements:
            self._begin(route, correlation_id, self._decode_and_handle(route, frame), len(frame))
            return
        except (RequestRefused, *DECODE_FAILURES) as error:
            self._failed(error)
            return
        # Compute the memory before the handler runs: the handler may decode other messages, which resets `message_elements`.
        cost_bytes = len(frame) + ELEMENT_BYTES * message_elements()
        is_watched = self._interception is not None and route.api.key in self._interception.watched_keys
        handled = self._handled(route, request, len(frame)) if is_watched else dispatcher.respond(route, request, len(frame))
        self._begin(route, correlation_id, handled, cost_bytes)

    def _handled(self, route: Route, request: Any, size_bytes: int) -> Steps[Any]:
        """The coroutine that handles a request, according to the verdict of the interception if there is one."""
        handled: Steps[Any] | None = None
        if self._interception is not None:
            handled = intercepted(self._interception, self._ports, self, self.dispatcher, route, request, size_bytes)
        return self.dispatcher.respond(route, request, size_bytes) if handled is None else handled

    async def _decode_and_handle(self, route: Route, frame: memoryview) -> Any:
        request, self._memory.decoded_bytes = await self.dispatcher.decode_in_steps(route, frame)
        self._memory.charge(self)
        return await self._handled(route, request, len(frame))

    def _begin(self, route: Route, correlation_id: int, handled: Steps[Any], cost_bytes: int) -> None:
        """Handle a request up to its first wait. Most requests never wait."""
        lossy_rounds = self._ports.barrier.lossy_rounds
        try:
            step = handled.send(None)
        except StopIteration as ended:
            if ended.value is None:
                return
            parts = self.dispatcher.encode(route, correlation_id, ended.value)
            if parts is None:
                self.close(NOT_ENCODED)
            else:
                self._answer(route, parts)
        except Exception as error:
            self._failed(error)
        else:
            self._handle_rest(route, correlation_id, handled, step, cost_bytes, lossy_rounds)

    def _handle_rest(
        self, route: Route, correlation_id: int, handled: Steps[Any], step: Step, cost_bytes: int, lossy_rounds: int
    ) -> None:
        """Handle the rest of a request that waits. Its bytes stay in the buffer, and no further request is handled, until the
        request is parked.

        ``cost_bytes`` is the memory of the parked request, except for what was decoded in a worker thread. If
        `Barrier.lossy_rounds` has grown from ``lossy_rounds``, writes of the request may be lost.
        """
        slot, stepping = self._answers.reserve(), self._ports.stepping
        is_held = not (isinstance(step, Pause) and step.is_parked)
        if is_held:
            self._frames.keep()
            self._memory.charge(self)
            self._hold(Hold.STEPS)

        def parked() -> None:
            if self._transport is None:
                work.cancel()
            else:
                self._answers.wait(slot, work, cost_bytes + self._memory.decoded_bytes)
            release()

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._steps_ended()

        def done(response: Any) -> None:
            if response is None:
                encoded([])
            elif work.is_long:
                stepping.run(self.dispatcher.encode_in_steps(route, correlation_id, response), encoded, failed)
            else:
                encoded(self.dispatcher.encode(route, correlation_id, response))

        def encoded(parts: list[Buffer] | None) -> None:
            if parts is None:
                self.close(NOT_ENCODED)
            else:
                self._fill_when_durable(route, slot, parts, lossy_rounds)
            release()

        def failed(error: Exception) -> None:
            self._failed(error)
            release()

        work = Work(stepping, handled, done, failed)
        work.on_parked = parked
        work.resume(step)

    def mute(self, for_ms: float) -> None:
        """Handle no further request for ``for_ms``."""
        self._hold(Hold.MUTED)
        self._ports.timers.call_later(for_ms, lambda: self._release(Hold.MUTED))

    def _steps_ended(self) -> None:
        self._holds &= ~Hold.STEPS
        self._memory.decoded_bytes = 0
        if self._transport is None:
            self._memory.release(self)
        else:
            if reason := self._memory.settle(self, is_held=self._holds != 0):
                self._hold(reason)
            self._go_on()

    # Sending responses

    def _answer(self, route: Route, parts: list[Buffer]) -> None:
        barrier = self._ports.barrier
        if barrier.never_waits or not barrier.is_pending or route.api.waits_for is WaitsFor.HANDLER:
            self._answers.put(parts)
        else:
            self._fill_when_durable(route, self._answers.reserve(), parts, barrier.lossy_rounds)

    def _fill_when_durable(self, route: Route, slot: Slot, parts: list[Buffer], lossy_rounds: int) -> None:
        """Put a response into its slot once all writes that it depends on are synced. If they may be lost, close the connection."""
        barrier = self._ports.barrier
        if route.api.waits_for is WaitsFor.HANDLER:
            self._fill(slot, parts)
        elif barrier.lossy_rounds != lossy_rounds:
            self.close(NOT_DURABLE)
        elif barrier.never_waits or not barrier.is_pending:
            self._fill(slot, parts)
        else:
            barrier.answer(lambda durable: self._fill(slot, parts) if durable else self.close(NOT_DURABLE))

    def _fill(self, slot: Slot, parts: list[Buffer]) -> None:
        if not self._is_open:
            return
        self._answers.fill(slot, parts)
        if self._is_handling:
            return
        self._flush()
        self._memory.charge(self)
        if self._holds & Hold.WAITING and not self._memory.too_much_waits():
            self._release(Hold.WAITING)

    def _flush(self) -> None:
        answers, transport = self._answers, self._transport
        out = answers.out
        if not out or transport is None or not self._is_open:
            return
        answers.out = []
        size_bytes = sum(map(len, out))
        self._written_bytes += size_bytes
        if len(out) == 1:
            transport.write(out[0])
        elif size_bytes < JOIN_BELOW_BYTES:
            transport.write(b"".join(out))
        else:
            transport.writelines(merged(out))
        if self._memory.has_unsent or transport.get_write_buffer_size() > SMALL_BYTES:
            self._memory.note_unsent(self, self.unsent_bytes())
