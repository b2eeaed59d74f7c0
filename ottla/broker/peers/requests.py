"""The unsent requests of one connection to a peer, and the requests in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec


class Failure(Enum):
    """The reason why a request has no response."""

    DISCONNECTED = "disconnected"
    """The connection could not be opened, or was lost. The peer may have handled the request."""
    TIMED_OUT = "timed out"
    """No response arrived in time. The peer may have handled the request."""
    UNSUPPORTED_VERSION = "unsupported version"
    """The peer supports no version of the API in which the request can be sent."""
    TOO_MANY = "too many"
    """The connection has reached its limit of waiting requests."""
    REFUSED = "refused"
    """This node and the peer do not accept each other's certificate or credentials, which the connection has logged."""
    CLOSED = "closed"
    """This node has closed the connection for good."""


class PeerFailure(Exception):
    """Passed to a callback instead of a response. It is an exception so that a caller may raise it."""

    def __init__(self, kind: Failure, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class AuthenticationRefused(Exception):
    """The peer and this node do not accept each other (`Failure.REFUSED`). The text is one line for a person."""


Then = Callable[[Any], None]
"""Called once, with the response or a `PeerFailure`. A response may refer to a receive buffer: it is valid only during the call."""


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
    """Limits on the requests and responses of one connection.

    ``waiting`` limits requests that are not sent yet; ``in_flight`` and ``in_flight_bytes`` limit sent requests without a response.
    ``response_bytes`` limits the size of one response.
    """

    waiting: int = 1_000
    in_flight: int = 100
    in_flight_bytes: int = 8 << 20
    response_bytes: int = 100 << 20


class OutOfOrder(Exception):
    """A response without a request, or before the response to an earlier request. Kafka sends responses in order."""


class Requests:
    """The waiting requests and the requests in flight, in the order of `add`."""

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
        """Add a request to be sent. Returns False if too many are waiting."""
        if len(self._waiting) >= self._limits.waiting:
            return False
        self._waiting.append(request)
        return True

    def next(self) -> Request | None:
        """Take the next request that may be sent now; None if no request waits, or if a limit of requests in flight is reached."""
        limits = self._limits
        if not self._waiting or len(self._in_flight) >= limits.in_flight or self._in_flight_bytes >= limits.in_flight_bytes:
            return None
        return self._waiting.popleft()

    def correlation_id(self) -> int:
        """Return a new correlation id, which no request in flight has."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        return correlation_id

    def sent(self, request: Request, correlation_id: int) -> None:
        """Record that a request was sent. The request's ``size_bytes`` must be set."""
        self._in_flight[correlation_id] = request
        self._in_flight_bytes += request.size_bytes

    def awaited(self, correlation_id: int) -> Request:
        """Return the request that a response belongs to, without a change of state. Raises `OutOfOrder`."""
        first = next(iter(self._in_flight), None)
        if first is None or first != correlation_id:
            raise OutOfOrder(f"the response has correlation id {correlation_id} instead of {'none' if first is None else first}")
        return self._in_flight[first]

    def answered(self, correlation_id: int) -> None:
        """Record that a response was read."""
        self._in_flight_bytes -= self._in_flight.pop(correlation_id).size_bytes

    def next_deadline_ms(self) -> float | None:
        """The earliest deadline of all requests; None without a request."""
        deadlines = [request.deadline_ms for request in self._waiting]
        deadlines += [request.deadline_ms for request in self._in_flight.values()]
        return min(deadlines, default=None)

    def take_overdue(self, now_ms: float) -> list[Request]:
        """Remove and return the unsent requests whose deadline has passed."""
        overdue = [request for request in self._waiting if request.deadline_ms <= now_ms]
        if overdue:
            self._waiting = deque(request for request in self._waiting if request.deadline_ms > now_ms)
        return overdue

    def is_answer_overdue(self, now_ms: float) -> bool:
        """Whether the deadline of a request in flight has passed."""
        return any(request.deadline_ms <= now_ms for request in self._in_flight.values())

    def take_in_flight(self) -> list[Request]:
        """Remove and return all requests in flight."""
        in_flight, self._in_flight, self._in_flight_bytes = list(self._in_flight.values()), {}, 0
        return in_flight

    def take_all(self) -> list[Request]:
        """Remove and return all requests, first the requests in flight."""
        every = [*self.take_in_flight(), *self._waiting]
        self._waiting.clear()
        return every
