"""What may stand in a request's way, and in a transaction's, so that tests can have faults: the port that the broker declares.

The broker knows no faults. Whoever has some (`ottla.control.faults`) is asked before a request is handled and at named points of a
transaction, and what is to happen instead comes back as a value: a `Verdict`, or a `Latch` that is to be waited for. Without an
`Interception` one test for None a request is all that is left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum, StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from ottla.protocol.errors import Code, KafkaError

# requests


class Topics(Protocol):
    """What a request means that does not name its topics, or not by their names."""

    def name_of(self, topic_id: bytes) -> str | None: ...

    def of_fetch_session(self, session_id: int) -> Iterable[tuple[bytes, str, int]]:
        """Id (zeros where it is named), name and partition of all that an incremental fetch stands for (KIP-227)."""
        ...


class Asked(NamedTuple):
    """A request before it is handled. ``request`` is good until it was handled: its bytes lie in a receive buffer."""

    api_key: int
    version: int
    client_id: str
    connection_id: int
    request: Any
    size_bytes: int
    refusal: Callable[[Any, int, Code], Any]
    """The API's own answer with one error: takes the request, its version and the error; None where no answer is made."""
    topics: Topics


class Latch:
    """Shut until somebody opens it."""

    __slots__ = ("_waiting", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: list[Callable[[], None]] = []

    def when_open(self, then: Callable[[], None]) -> None:
        """Have ``then`` called when it is opened, at once where it is."""
        if self.is_open:
            then()
        else:
            self._waiting.append(then)

    def forget(self, then: Callable[[], None]) -> None:
        """Whoever waits with this is gone."""
        if then in self._waiting:
            self._waiting.remove(then)

    def open(self) -> None:
        self.is_open = True
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()


class Rate(Protocol):
    def delay_ms(self, size_bytes: int, now_ms: float) -> float:
        """How long so many bytes have to wait from now on, where they are the next after all that were asked about before."""
        ...


class Ending(Enum):
    """What the client hears when its request was handled, or was not."""

    ANSWER = "answer"
    SILENCE = "silence"
    """Nothing ever. The connection stays, and later answers do not wait for this one."""
    CUT = "cut"
    """The connection is closed."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is done with one request, in the order of the fields."""

    held_before: Latch | None = None
    is_unread: bool = False
    """Whether what is held counts as not received yet: it is dropped where its client goes away."""
    delay_before_ms: float = 0
    rate: Rate | None = None
    """How fast the bytes of the request come in and those of its answer go out."""
    on_begin: Callable[[], None] | None = None
    takes_effect: bool = True
    """Whether the request is handled. Otherwise ``response`` is the answer, None for none."""
    request: Any = None
    """What is handled in place of the client's request; None for the request itself."""
    response: Any = None
    complete: Callable[[Any], Any] | None = None
    """Makes of the handler's response the one that is told."""
    on_effect: Callable[[], None] | None = None
    """Called when the request has taken effect, before anything is told of it."""
    ending: Ending = Ending.ANSWER
    held_after: Latch | None = None
    delay_after_ms: float = 0
    mute_ms: float = 0
    """How long no further request of the connection is handled once the answer is out (KIP-219)."""


# transactions


class Point(StrEnum):
    """Where a transaction may be stopped on its way from the decision to its end."""

    BEFORE_PREPARE = "before-prepare"
    """The decision is made and not logged. A restart knows an open transaction."""
    AFTER_PREPARE = "after-prepare"
    """The decision is in the log and stands. No marker is written."""
    BETWEEN_MARKERS = "between-markers"
    """Some partitions have their marker, and the next one follows."""
    BEFORE_OFFSETS = "before-offsets"
    """The marker in a partition of ``__consumer_offsets`` follows, by which the transaction's offsets count."""
    BEFORE_COMPLETE = "before-complete"
    """All markers are written, and the end is not logged."""


class Reached(NamedTuple):
    """A transaction at one of the points. Where a marker follows, ``topic`` and ``partition`` say for whom."""

    point: Point
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    markers_written: int = 0
    topic: str = ""
    partition: int = -1


class Held(KafkaError):
    """A decision that is not to be logged before ``latch`` is open. Who cannot wait tells the client to come again."""

    def __init__(self, latch: Latch) -> None:
        super().__init__(Code.CONCURRENT_TRANSACTIONS)
        self.latch = latch


class Interception(Protocol):
    """Who is asked. Both collections are looked at first, so that where nothing is to happen nobody is asked anything."""

    @property
    def watched_keys(self) -> Collection[int]:
        """Keys of the APIs whose requests `intercept` wants to see."""
        ...

    @property
    def watched_points(self) -> Collection[Point]: ...

    def intercept(self, asked: Asked) -> Verdict | None:
        """What is done with a request; None to have it handled as if nobody had asked."""
        ...

    def reached(self, reached: Reached) -> Latch | None:
        """A latch to wait for before the transaction goes on; None to go on. Raises the `KafkaError` that refuses the step."""
        ...
