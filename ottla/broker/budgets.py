"""What all connections together may hold in memory: unfinished and waiting requests, and answers that are not taken.

Every connection has bounds of its own. These two are for all of them: a broker must not run out of memory because many
clients stay within theirs. Whoever is slowest waits, and is closed when others would have to wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from ottla.broker.env import Env, Timer

CHECK_MS = 50.0
"""How often a budget that is used up is looked at again while somebody waits for it, in ms."""
SMALL_BYTES = 1 << 12
"""A buffer up to this size is never refused: a small request does not wait for the large ones of others."""

FIRST_MS = 30_000.0
"""How long the one connection that may exceed the requests' budget may take until its request is answered, in ms."""

log = structlog.get_logger("network")


class Held(Protocol):
    """A connection as the budgets see it."""

    peer: str

    def unsent_bytes(self) -> int:
        """Bytes of answers that the client has not taken yet."""
        ...

    def sent_bytes(self) -> int:
        """Bytes of answers that the client has taken, over the whole life of the connection."""
        ...

    def go_on(self) -> None:
        """What was refused may be tried again."""
        ...

    def abort(self, reason: str) -> None:
        """Close at once, with whatever waits to go out."""
        ...


class ResponseBudget:
    """Bytes of answers that wait to be taken by their clients (``ottla.queued.max.response.bytes``).

    Only requests whose answers may be large wait while the budget is used up. Of the connections that hold it, those
    that have taken nothing for ``ottla.response.stall.ms`` are closed then, the largest first. What fetches have read
    for answers that are not whole yet counts as well.
    """

    def __init__(self, env: Env, limit_bytes: int, stall_ms: int) -> None:
        self._env = env
        self.limit_bytes = limit_bytes
        self.stall_ms = stall_ms
        self.closed_count = 0
        """Connections that were closed because others waited for the memory they held."""
        self._total_bytes = 0
        # What each connection with untaken answers held when it was noted last, and when it took something last.
        self._holders: dict[Held, int] = {}
        self._progress: dict[Held, tuple[int, float]] = {}
        self._waiting: dict[Callable[[], None], None] = {}
        self._read_bytes = 0
        self._timer: Timer | None = None

    @property
    def used_bytes(self) -> int:
        return self._refreshed()

    @property
    def left_bytes(self) -> int:
        """How much more may be read for answers now; below 0 where the bound is exceeded."""
        return self.limit_bytes - self._total_bytes

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def note(self, holder: Held, unsent_bytes: int) -> None:
        """A connection's untaken answers have become more or less."""
        self._total_bytes += unsent_bytes - self._holders.get(holder, 0)
        if unsent_bytes:
            self._holders[holder] = unsent_bytes
        else:
            self._holders.pop(holder, None)
            self._progress.pop(holder, None)

    def remove(self, holder: Held) -> None:
        """The connection is gone."""
        self.note(holder, 0)
        self.forget(holder.go_on)

    @property
    def is_used_up(self) -> bool:
        """Whether an answer that may be large must wait."""
        return self._total_bytes >= self.limit_bytes and self._refreshed() >= self.limit_bytes

    def read(self, more_bytes: int) -> None:
        """So many more bytes have been read for answers that are not given to a connection yet; fewer where below 0."""
        self._read_bytes += more_bytes
        self._total_bytes += more_bytes
        assert self._read_bytes >= 0

    def wait(self, go_on: Callable[[], None]) -> None:
        """``go_on`` is called when there is room again."""
        self._waiting[go_on] = None
        self._watch()

    def forget(self, go_on: Callable[[], None]) -> None:
        """Whoever waits with this is gone."""
        self._waiting.pop(go_on, None)

    def _refreshed(self) -> int:
        """The sum as of now: sockets take bytes without a word."""
        for holder in list(self._holders):
            self.note(holder, holder.unsent_bytes())
        return self._total_bytes

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._env.call_later(CHECK_MS, self._check)

    def _check(self) -> None:
        self._timer = None
        self._refreshed()
        now_ms = self._env.monotonic_ms()
        for holder in self._holders:
            sent = holder.sent_bytes()
            if self._progress.get(holder, (-1, 0.0))[0] != sent:
                self._progress[holder] = (sent, now_ms)
        if self._total_bytes >= self.limit_bytes:
            self._close_stalled(now_ms)
        while self._waiting and self._total_bytes < self.limit_bytes:
            go_on = next(iter(self._waiting))
            del self._waiting[go_on]
            go_on()
        if self._waiting:
            self._watch()
        else:
            self._progress.clear()

    def _close_stalled(self, now_ms: float) -> None:
        """Close those that have taken nothing for too long, until there is room."""
        stalled = [h for h, (_, since_ms) in self._progress.items() if now_ms - since_ms >= self.stall_ms]
        for holder in sorted(stalled, key=lambda h: -self._holders[h]):
            if self._total_bytes < self.limit_bytes:
                return
            self.closed_count += 1
            self.remove(holder)
            holder.abort(f"it takes no answers for {self.stall_ms} ms, and others wait for the memory that these hold")


class RequestBudget:
    """Bytes of requests that are not answered yet: unfinished frames, and large or waiting requests.

    The bound is ``queued.max.request.bytes``, Kafka's own key; below 0 there is none. While it is used up, connections
    wait in order for larger buffers. The first of them may go on all the same, so that a request larger than what is
    left is not refused for ever; until it is answered no other may, so the bound is exceeded by one request at most.
    Whoever holds an unfinished frame is closed when nothing arrives for ``ottla.request.stall.ms`` while others wait,
    and the first when its request is not answered within `FIRST_MS`.
    """

    def __init__(self, env: Env, limit_bytes: int, stall_ms: int) -> None:
        self._env = env
        self.limit_bytes = limit_bytes
        self.stall_ms = stall_ms
        self.closed_count = 0
        """Connections that were closed because others waited for the memory they held."""
        self.used_bytes = 0
        self._charged: dict[Held, int] = {}
        # Connections with an unfinished frame: when bytes arrived last, in ms.
        self._unfinished: dict[Held, float] = {}
        self._waiting: dict[Held, None] = {}
        # The one that may exceed the bound, and the one that may become it, while `Held.go_on` is called.
        self._first: Held | None = None
        self._first_since_ms = 0.0
        self._next: Held | None = None
        self._timer: Timer | None = None

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def is_used_up(self) -> bool:
        return 0 <= self.limit_bytes <= self.used_bytes

    def ask(self, holder: Held, size_bytes: int) -> bool:
        """Whether a connection may hold this much for an unfinished frame; it is counted then.

        False where it must wait: `Held.go_on` is called later.
        """
        more = size_bytes - self._charged.get(holder, 0)
        if more > 0 and 0 <= self.limit_bytes < self.used_bytes + more and not self._is_first(holder):
            self._waiting[holder] = None
            self._watch()
            return False
        self.charge(holder, size_bytes, is_unfinished=True)
        return True

    def charge(self, holder: Held, size_bytes: int, *, is_unfinished: bool = False) -> None:
        """Set what a connection holds, without asking. ``is_unfinished``: a part of a frame, whose rest is to come."""
        self.used_bytes += size_bytes - self._charged.get(holder, 0)
        assert self.used_bytes >= 0
        if size_bytes:
            self._charged[holder] = size_bytes
        else:
            self._charged.pop(holder, None)
        if is_unfinished:
            self._unfinished[holder] = self._env.monotonic_ms()
        else:
            self._unfinished.pop(holder, None)
        if self._first is holder and (size_bytes <= SMALL_BYTES or not self.is_used_up):
            self._first = None

    def remove(self, holder: Held) -> None:
        """The connection is gone."""
        self.charge(holder, 0)
        self._waiting.pop(holder, None)

    def _is_first(self, holder: Held) -> bool:
        if self._first is None and (self._next is holder or not self._waiting):
            self._first = holder
            self._first_since_ms = self._env.monotonic_ms()
        return self._first is holder

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._env.call_later(CHECK_MS, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        self._close_stalled(self._env.monotonic_ms())
        for holder in list(self._waiting):
            if self._first is not None and self.is_used_up:
                break
            # It asks again, and waits again where it still does not fit. Where something else holds it, it asks later.
            del self._waiting[holder]
            self._next = holder
            holder.go_on()
        self._next = None
        if self._waiting:
            self._watch()

    def _close_stalled(self, now_ms: float) -> None:
        if self._first is not None and now_ms - self._first_since_ms >= FIRST_MS:
            self._close(self._first, f"is not answered within {FIRST_MS:.0f} ms")
        for holder, since_ms in list(self._unfinished.items()):
            if now_ms - since_ms >= self.stall_ms and holder not in self._waiting:
                self._close(holder, f"has not gone on for {self.stall_ms} ms")

    def _close(self, holder: Held, what: str) -> None:
        self.closed_count += 1
        self.remove(holder)
        holder.abort(f"its request {what}, and others wait for the memory that it holds")
