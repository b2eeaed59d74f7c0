"""The faults of one broker, and the `Interception` that the broker calls.

The broker's event loop owns this state. Without faults the collections of watched keys and points are empty, so the broker calls no
function of this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
import structlog

from ottla.broker.hooks.interception import IncomingRequest, Interception, Latch, Point, Reached, Verdict
from ottla.control.faults.added_fault import AddedFault, FaultView
from ottla.control.faults.api_names import FaultError
from ottla.control.faults.fault import Fault, refusal_code
from ottla.control.faults.hits import of_handshake, of_request, of_transaction
from ottla.control.faults.matching import is_like
from ottla.control.faults.parsing import parse_faults
from ottla.control.faults.verdict import verdict
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages import APIS

__all__ = ["AddedFault", "Fault", "FaultError", "FaultView", "Faults", "parse_faults"]

MAX_FAULTS = 200
"""Maximum number of faults of one broker, including faults that have reached their maximum number of hits."""
KILLED = 137
"""The exit code that a shell reports for a process that SIGKILL has ended."""

log = structlog.get_logger("faults")


def kill_process() -> None:
    """End this process like SIGKILL: nothing is flushed, closed or cleaned up."""
    os._exit(KILLED)


class Faults:
    """The `broker.hooks.interception.Interception` of one broker. Faults that freeze clients are checked first, the others in the
    order in which they were added, until a fault determines the request's outcome. ``kill`` ends the broker's process."""

    def __init__(self, *, kill: Callable[[], None] = kill_process) -> None:
        self._kill = kill
        self._added: dict[int, AddedFault] = {}
        self._last_id = 0
        # The active faults by API key and by transaction point. These are attributes, because a call per request would cost time.
        self.watched_keys: dict[int, tuple[AddedFault, ...]] = {}
        self.watched_points: dict[Point, tuple[AddedFault, ...]] = {}
        self.watched_handshakes: tuple[AddedFault, ...] = ()

    def __len__(self) -> int:
        return len(self._added)

    def add(self, fault: Fault) -> AddedFault:
        """Add a fault. Raises `FaultError` if there are too many."""
        return self.add_all([fault])[0]

    def add_all(self, faults: Sequence[Fault]) -> list[AddedFault]:
        """Add all of the faults, or raise `FaultError` and add none if there would be too many."""
        if len(self._added) + len(faults) > MAX_FAULTS:
            there = f"there are {len(self._added):,} faults, and at most {MAX_FAULTS:,} are allowed"
            raise FaultError(f"{there}; remove faults that are no longer needed")
        added = [AddedFault(self._last_id + number, fault, self.remove) for number, fault in enumerate(faults, 1)]
        self._last_id += len(faults)
        self._added |= {one.id: one for one in added}
        self._sort()
        for one in added:
            log.info("fault_added", fault=one.id, **msgspec.to_builtins(one.fault))
        return added

    def all(self) -> list[AddedFault]:
        """Return all faults in the order in which they were added."""
        return list(self._added.values())

    def get(self, fault_id: int) -> AddedFault | None:
        return self._added.get(fault_id)

    def remove(self, fault_id: int) -> bool:
        """Remove a fault, and release its held requests and transactions. Returns whether the fault existed."""
        added = self._added.pop(fault_id, None)
        if added is None:
            return False
        self._sort()
        log.info("fault_removed", fault=added.id, hits=added.hits)
        added.latch.open()
        return True

    def clear(self) -> None:
        """Remove all faults, and release all held requests and transactions."""
        self.discard(self.set_aside())

    def set_aside(self) -> list[AddedFault]:
        """Remove and return all faults. Requests and transactions stay held until `discard` or `put_back`."""
        aside, self._added = self.all(), {}
        self._sort()
        return aside

    def put_back(self, aside: Iterable[AddedFault]) -> None:
        """Add the faults again that `set_aside` has removed."""
        self._added = {added.id: added for added in aside} | self._added
        self._sort()

    @staticmethod
    def discard(aside: Iterable[AddedFault]) -> None:
        """Release the requests and transactions that faults removed by `set_aside` hold."""
        for added in aside:
            log.info("fault_removed", fault=added.id, hits=added.hits)
            added.latch.open()

    def _sort(self) -> None:
        """Rebuild the collections of watched keys and points. Faults that freeze clients come first, so that other faults count the
        request of a frozen client after its release."""
        active = sorted((a for a in self._added.values() if a.is_active), key=lambda a: not a.fault.freeze)
        self.watched_handshakes = tuple(a for a in active if a.fault.fail_handshake)
        of_requests = [a for a in active if a.point is None and not a.fault.fail_handshake]
        keys = {key for a in of_requests for key in ((a.matcher.key,) if a.matcher.key is not None else APIS)}
        self.watched_keys = {key: tuple(a for a in of_requests if a.matcher.key in (None, key)) for key in keys}
        points = {a.point for a in active if a.point is not None}
        self.watched_points = {point: tuple(a for a in active if a.point is point) for point in points}

    def intercept(self, incoming: IncomingRequest) -> Verdict | None:
        triggered: list[AddedFault] = []
        for added in self.watched_keys.get(incoming.api_key, ()):
            if added.matcher.matches(incoming) and added.count_match():
                triggered.append(added)
                if added.matcher.is_final:
                    break
        if not triggered:
            return None
        # Create the verdict before calling the functions of `on_hit`, because these may remove the fault.
        made = verdict(incoming, triggered, self._kill)
        hit = of_request(incoming)
        for added in triggered:
            added.triggered(hit)
        if any(added.is_spent for added in triggered):
            self._sort()
        return made

    def reached(self, reached: Reached) -> Latch | None:
        """Apply the faults to a transaction that has reached a point. Returns the latch on which the transaction must wait, if any.
        Raises the `KafkaError` of a fault that refuses the transaction's next step."""
        for added in self.watched_points.get(reached.point, ()):
            if added.holds(reached):
                return added.latch
            if added.matcher.matches_point(reached) and added.count_match():
                added.triggered(of_transaction(reached))
                if not added.is_active:
                    self._sort()
                return self._stopped(added, reached)
        return None

    def fails_handshake(self, listener: str, peer: str) -> bool:
        for added in self.watched_handshakes:
            if is_like(listener, added.fault.listener) and added.count_match():
                added.triggered(of_handshake(listener, peer))
                if added.is_spent:
                    self._sort()
                return True
        return False

    def _stopped(self, added: AddedFault, reached: Reached) -> Latch:
        if added.fault.kill is not None:
            self._kill()
        if added.fault.refuse is not None:
            raise KafkaError(refusal_code(added.fault), f"fault {added.id}")
        return added.hold(reached)


if TYPE_CHECKING:
    # mypy checks here that `Faults` implements `Interception`.
    _PORT: type[Interception] = Faults
