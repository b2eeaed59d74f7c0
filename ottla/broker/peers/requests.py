"""The requests of one connection to a peer: those that wait to be sent, and those that wait for their answers. Without a socket."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec


class Failure(Enum):
    """Why a request has got no answer."""

    DISCONNECTED = "disconnected"
    """The connection could not be made, or was lost. The peer may have carried the request out."""
    TIMED_OUT = "timed out"
    """No answer has come in time. The peer may have carried the request out."""
    UNSUPPORTED_VERSION = "unsupported version"
    """The peer knows no version of the API in which the request can be sent."""
    TOO_MANY = "too many"
    """Too many requests wait already."""
    CLOSED = "closed"
    """This side has closed the connection for good."""


class PeerFailure(Exception):
    """Comes in place of an answer. It is a value for a callback, and an exception only so that a caller may raise it."""

    def __init__(self, kind: Failure, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


Then = Callable[[Any], None]
"""Called once, with the answer or with a `PeerFailure`. An answer may hold views of a receive buffer, which are valid during the
call only."""


class Request(msgspec.Struct, eq=False, kw_only=True):
    """One request. ``version`` and ``size_bytes`` are set when it is sent."""

    key: int
    message: Any
    then: Then
    deadline_ms: float
    least_version: int = 0
    most_version: int | None = None
    version: int = -1
    size_bytes: int = 0


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one connection may have under way.

    ``waiting`` counts requests that are not sent yet; ``in_flight`` and ``in_flight_bytes`` those that were sent and not answered.
    """

    waiting: int = 1_000
    in_flight: int = 100
    in_flight_bytes: int = 8 << 20


class OutOfOrder(Exception):
    """An answer that belongs to no request, or comes before that of an earlier one. Kafka's answers keep their order."""


class Requests:
    """Requests in the order in which they were given."""

    __slots__ = ("_in_flight", "_in_flight_bytes", "_limits", "_next_correlation_id", "_waiting")

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._waiting: deque[Request] = deque()
        self._in_flight: dict[int, Request] = {}
        self._in_flight_bytes = 0
        self._next_correlation_id = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    @property
    def in_flight_bytes(self) -> int:
        return self._in_flight_bytes

    def add(self, request: Request) -> bool:
        """Let a request wait to be sent; False where too many wait."""
        if len(self._waiting) >= self._limits.waiting:
            return False
        self._waiting.append(request)
        return True

    def next(self) -> Request | None:
        """Take the next request that may be sent now; None where there is none, or where enough are in flight."""
        limits = self._limits
        if not self._waiting or len(self._in_flight) >= limits.in_flight or self._in_flight_bytes >= limits.in_flight_bytes:
            return None
        return self._waiting.popleft()

    def correlation_id(self) -> int:
        """A correlation id that no request in flight has."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        return correlation_id

    def sent(self, request: Request, correlation_id: int) -> None:
        """Note a request as sent. ``size_bytes`` of the request must be set."""
        self._in_flight[correlation_id] = request
        self._in_flight_bytes += request.size_bytes

    def awaited(self, correlation_id: int) -> Request:
        """The request that an answer belongs to. Raises `OutOfOrder`, with nothing changed."""
        first = next(iter(self._in_flight), None)
        if first is None or first != correlation_id:
            raise OutOfOrder(f"an answer to request {correlation_id} in place of {'none' if first is None else first}")
        return self._in_flight[first]

    def answered(self, correlation_id: int) -> None:
        """Note that the answer to the request of `awaited` is read."""
        self._in_flight_bytes -= self._in_flight.pop(correlation_id).size_bytes

    def next_deadline_ms(self) -> float | None:
        """The earliest deadline of all requests; None without one."""
        deadlines = [request.deadline_ms for request in self._waiting]
        deadlines += [request.deadline_ms for request in self._in_flight.values()]
        return min(deadlines, default=None)

    def take_overdue(self, now_ms: float) -> list[Request]:
        """Take the requests out that wait to be sent and whose deadline has passed."""
        overdue = [request for request in self._waiting if request.deadline_ms <= now_ms]
        if overdue:
            self._waiting = deque(request for request in self._waiting if request.deadline_ms > now_ms)
        return overdue

    def is_answer_overdue(self, now_ms: float) -> bool:
        """Whether the deadline of a request in flight has passed."""
        return any(request.deadline_ms <= now_ms for request in self._in_flight.values())

    def take_in_flight(self) -> list[Request]:
        """Take out all requests that were sent, because their answers will not come."""
        in_flight, self._in_flight, self._in_flight_bytes = list(self._in_flight.values()), {}, 0
        return in_flight

    def take_all(self) -> list[Request]:
        """Take out all requests: those that were sent first, then those that wait."""
        every = [*self.take_in_flight(), *self._waiting]
        self._waiting.clear()
        return every
