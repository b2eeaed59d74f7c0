"""The interface by which tests inject faults into requests and transactions.

The broker itself has no faults. It calls an `Interception` (`ottla.control.faults.registry`) before a request is handled and at
named points of a transaction. The result describes the injected fault: a `Verdict`, or a `Latch` to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum, StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import Pause


class RequestTopics(Protocol):
    """Finds the topics of a request that contains topic ids or a fetch session instead of names."""

    def name_of(self, topic_id: bytes) -> str | None: ...

    def of_fetch_session(self, session_id: int) -> Iterable[tuple[bytes, str, int]]:
        """Topic id (zeros if the client uses names), name and partition of all partitions of a fetch session (KIP-227)."""
        ...


class IncomingRequest(NamedTuple):
    """A request before it is handled. ``request`` refers to a receive buffer, and is invalid after the request was handled."""

    api_key: int
    version: int
    client_id: str
    connection_id: int
    request: Any
    size_bytes: int
    refusal: Callable[[Any, int, Code], Any]
    """Builds the API's response with one error from the request, its version and the error; returns None for no response."""
    topics: RequestTopics


class Latch:
    """Delays work until `open` is called."""

    __slots__ = ("_waiting", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: list[Callable[[], None]] = []

    def when_open(self, then: Callable[[], None]) -> None:
        """Call ``then`` when the latch is opened, or immediately if it is already open."""
        if self.is_open:
            then()
        else:
            self._waiting.append(then)

    async def opened(self) -> None:
        """Park the calling coroutine until the latch is open, even if the client disconnects."""
        is_open: Pause[None] = Pause(is_parked=True, outlives_client=True)
        self.when_open(is_open.end)
        try:
            await is_open
        finally:
            self.forget(is_open.end)

    def forget(self, then: Callable[[], None]) -> None:
        """Remove a callback that was registered by `when_open`."""
        if then in self._waiting:
            self._waiting.remove(then)

    def open(self) -> None:
        self.is_open = True
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()


class Delay(NamedTuple):
    ms: float
    ended_by: Latch
    """The delay ends early if this latch opens."""


class Rate(Protocol):
    def delay_ms(self, size_bytes: int, now_ms: float) -> float:
        """Return the time in ms until ``size_bytes`` more bytes have passed at this rate, after the bytes of all earlier calls."""
        ...


class Ending(Enum):
    """How a request ends for its client: with a response, without one, or with a closed connection."""

    ANSWER = "answer"
    SILENCE = "silence"
    """The client never gets a response. The connection stays open, and sends later responses as usual."""
    CUT = "cut"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How one request is handled. The fields are in the order in which they apply."""

    held_before: Latch | None = None
    is_unread: bool = False
    """Whether a request that waits for ``held_before`` is dropped if its client disconnects, as if it was not received."""
    delays_before: tuple[Delay, ...] = ()
    """Delays before the request is handled, one after the other."""
    rate: Rate | None = None
    """The rate at which the bytes of the request arrive and the bytes of its response are sent."""
    on_begin: Callable[[], None] | None = None
    takes_effect: bool = True
    """Whether the request is handled. If not, ``response`` is sent, unless it is None."""
    request: Any = None
    """The request that is handled instead of the client's request; None for no change."""
    response: Any = None
    is_refused: bool = False
    """Whether the request, or a part of it, gets an error. If it is a Produce with acks=0, its connection is closed instead."""
    complete: Callable[[Any], Any] | None = None
    """Changes the handler's response into the response that is sent."""
    on_effect: Callable[[], None] | None = None
    """Called when the request has taken effect, before its response is sent."""
    ending: Ending = Ending.ANSWER
    held_after: Latch | None = None
    delays_after: tuple[Delay, ...] = ()
    mute_ms: float = 0
    """Time in ms after the response during which no further request of the connection is handled (KIP-219)."""


class Point(StrEnum):
    """The points between the decision and the completion of a transaction at which a fault may stop it."""

    BEFORE_PREPARE = "before-prepare"
    """The outcome is decided and not logged yet. After a restart the transaction is open."""
    AFTER_PREPARE = "after-prepare"
    """The Prepare record is in the log, so the outcome is final. No marker is written yet."""
    BETWEEN_MARKERS = "between-markers"
    """Some partitions have their marker, and the next marker is about to be written."""
    BEFORE_OFFSETS = "before-offsets"
    """A marker in ``__consumer_offsets``, which commits or drops the transaction's offsets, is about to be written."""
    BEFORE_COMPLETE = "before-complete"
    """All markers are written, and the Complete record is not logged yet."""


class Reached(NamedTuple):
    """A transaction that has reached a `Point`. Before a marker, ``topic`` and ``partition`` identify the marker's partition."""

    point: Point
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    markers_written: int = 0
    topic: str = ""
    partition: int = -1


class DecisionDelayed(KafkaError):
    """Raised for a commit or abort that must not be logged before ``latch`` is open.

    A handler that cannot wait responds with the error's code, CONCURRENT_TRANSACTIONS, so that the client retries.
    """

    def __init__(self, latch: Latch) -> None:
        super().__init__(Code.CONCURRENT_TRANSACTIONS)
        self.latch = latch


class Interception(Protocol):
    """Decides about faults. The broker calls `intercept` only for `watched_keys`, `reached` only for `watched_points`, and
    `fails_handshake` only if there are `watched_handshakes`."""

    @property
    def watched_keys(self) -> Collection[int]: ...

    @property
    def watched_points(self) -> Collection[Point]: ...

    @property
    def watched_handshakes(self) -> Collection[object]: ...

    def intercept(self, incoming: IncomingRequest) -> Verdict | None:
        """The verdict on a request; None to handle the request normally."""
        ...

    def reached(self, reached: Reached) -> Latch | None:
        """A latch for which the transaction waits; None to continue now. Raises a `KafkaError` if the transaction must not
        continue."""
        ...

    def fails_handshake(self, listener: str, peer: str) -> bool:
        """Whether the TLS handshake of a new connection of a listener must fail."""
        ...
