"""The state of a fault that was added to a broker: matches, hits, and held requests and transactions."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import msgspec
import structlog

from ottla.broker.hooks.interception import Latch, Reached
from ottla.control.faults.fault import Fault
from ottla.control.faults.hits import Hit
from ottla.control.faults.matching import Matcher
from ottla.control.faults.rates import ByteRate
from ottla.control.faults.responses import response_of

HITS_KEPT = 100
"""Number of the newest hits of each fault that are stored for display."""
HITS_LOGGED = 10
"""Maximum number of logged hits per fault, so that a fault that hits every request does not fill the log."""

log = structlog.get_logger("faults")


class FaultView(msgspec.Struct, kw_only=True):
    """The state of a fault at one moment, as the control API returns it."""

    id: int
    fault: Fault
    hits: int
    matched: int
    """Number of requests, transactions or TLS handshakes that met the conditions, whether the fault hit them or not."""
    is_spent: bool
    newest_hits: list[Hit]


class AddedFault:
    """A fault that was added to a broker. After its last hit it stays in the list of faults, so that its hits can be read."""

    def __init__(self, fault_id: int, fault: Fault, remove: Callable[[int], object]) -> None:
        self.id = fault_id
        self.fault = fault
        self.point = fault.point
        self._limit = fault.limit
        self.matched = 0
        self.hits = 0
        self.newest_hits: deque[Hit] = deque(maxlen=HITS_KEPT)
        self.on_hit: list[Callable[[AddedFault], None]] = []
        self.latch = Latch()
        """Opened when the fault is removed, which releases all held requests and transactions."""
        self.rate = ByteRate(fault.bytes_per_second) if fault.bytes_per_second else None
        self.matcher = Matcher(fault)
        key = self.matcher.key
        self.answer = None if fault.answer is None or key is None else response_of(key, fault.answer)
        """The response that replaces the handler's response. All hits share it, so it is never changed."""
        self._rng = random.Random(fault.seed)
        self._remove = remove
        # Held transactions. A repeated command for a held transaction is not counted as another hit.
        self._held: set[tuple[object, ...]] = set()

    def __repr__(self) -> str:
        given = msgspec.to_builtins(self.fault)
        return f"<fault {self.id}: {', '.join(f'{k}={v!r}' for k, v in given.items())}; {self.hits} hits>"

    @property
    def is_spent(self) -> bool:
        """Whether the fault has reached its maximum number of hits."""
        return self._limit is not None and self.hits >= self._limit

    @property
    def is_active(self) -> bool:
        """Whether requests must still be compared with the fault. Even after its last hit, a fault must hold repeated commands
        of held transactions."""
        return not self.is_spent or (self.point is not None and self.fault.hold is not None)

    def remove(self) -> None:
        """Remove the fault, and release its held requests and transactions. A second call does nothing."""
        self._remove(self.id)

    def when_hits(self, count: int, then: Callable[[], None]) -> Callable[[], None]:
        """Call ``then`` when the fault has ``count`` hits, which may be at once. Returns a function that cancels the call."""
        if self.hits >= count:
            then()
            return lambda: None

        def triggered(_: AddedFault) -> None:
            if self.hits >= count:
                forget()
                then()

        def forget() -> None:
            if triggered in self.on_hit:
                self.on_hit.remove(triggered)

        self.on_hit.append(triggered)
        return forget

    def view(self) -> FaultView:
        return FaultView(
            id=self.id,
            fault=self.fault,
            hits=self.hits,
            matched=self.matched,
            is_spent=self.is_spent,
            newest_hits=list(self.newest_hits),
        )

    def count_match(self) -> bool:
        """Count a match. Returns whether the fault hits the matching request or transaction."""
        self.matched += 1
        if self.matched < self.fault.nth or self.is_spent:
            return False
        return self.fault.probability >= 1 or self._rng.random() < self.fault.probability

    def triggered(self, hit: Hit) -> None:
        self.hits += 1
        self.newest_hits.append(hit)
        if self.hits <= HITS_LOGGED:
            log.info("fault_triggered", fault=self.id, hit=self.hits, what=hit.what, client_id=hit.client_id)
        for call in list(self.on_hit):
            call(self)

    def holds(self, reached: Reached) -> bool:
        """Whether the fault already holds the transaction at this point."""
        return reached[:-2] in self._held

    def hold(self, reached: Reached) -> Latch:
        self._held.add(reached[:-2])
        return self.latch
