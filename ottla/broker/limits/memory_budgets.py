"""Limits the memory of all connections together: unfinished and waiting requests, and responses that clients have not read yet.

Each connection has its own limits. The two budgets here are shared, because many connections within their limits could still
exhaust the broker's memory. While a budget is used up, connections wait. A connection that makes no progress while other
connections wait is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from ottla.broker.loop.env import Env, Timer

CHECK_MS = 50.0
"""Interval in ms at which a used-up budget is checked while connections wait for memory."""
SMALL_BYTES = 1 << 12
"""Buffers up to this size in bytes are not counted and never refused, so that small requests do not wait for large requests."""

FIRST_MS = 30_000.0
"""Time limit in ms for the request of the one connection that may exceed the request budget."""

log = structlog.get_logger("network")


class BudgetHolder(Protocol):
    """The part of a connection that the budgets use."""

    peer: str

    def unsent_bytes(self) -> int:
        """Number of bytes of responses that the client has not read yet."""
        ...

    def sent_bytes(self) -> int:
        """Number of bytes of responses that the client has read since the connection was opened."""
        ...

    def go_on(self) -> None:
        """Retry the work that the budget refused."""
        ...

    def abort(self, reason: str) -> None:
        """Close the connection immediately and drop the responses that were not sent yet."""
        ...


class ResponseBudget:
    """Limits the bytes of responses that clients have not read yet (``ottla.queued.max.response.bytes``).

    While the budget is used up, requests whose responses may be large wait. Connections whose clients have read nothing for
    ``ottla.response.stall.ms`` are closed, those with the most unread bytes first. Bytes that fetches have read from logs for
    unfinished responses count as well.
    """

    def __init__(self, env: Env, limit_bytes: int, stall_ms: int) -> None:
        self._env = env
        self.limit_bytes = limit_bytes
        self.stall_ms = stall_ms
        self.closed_count = 0
        """Number of connections that were closed because other connections waited for memory."""
        self._total_bytes = 0
        # `_holders`: bytes of each connection's unread responses at the last `note`. `_progress`: each connection's sent bytes in
        # total, with the time of the check that first saw this total.
        self._holders: dict[BudgetHolder, int] = {}
        self._progress: dict[BudgetHolder, tuple[int, float]] = {}
        self._waiting: dict[Callable[[], None], None] = {}
        self._read_bytes = 0
        self._timer: Timer | None = None

    @property
    def used_bytes(self) -> int:
        return self._refreshed()

    @property
    def left_bytes(self) -> int:
        """Number of further bytes that may be read for responses now; below 0 if the limit is exceeded."""
        return self.limit_bytes - self._total_bytes

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def note(self, holder: BudgetHolder, unsent_bytes: int) -> None:
        """Set the number of bytes of a connection's unread responses."""
        self._total_bytes += unsent_bytes - self._holders.get(holder, 0)
        if unsent_bytes:
            self._holders[holder] = unsent_bytes
        else:
            self._holders.pop(holder, None)
            self._progress.pop(holder, None)

    def remove(self, holder: BudgetHolder) -> None:
        """Forget a connection that was closed."""
        self.note(holder, 0)
        self.forget(holder.go_on)

    @property
    def is_used_up(self) -> bool:
        """Whether the budget is used up. If so, a response that may be large must wait."""
        return self._total_bytes >= self.limit_bytes and self._refreshed() >= self.limit_bytes

    def read(self, more_bytes: int) -> None:
        """Count bytes that were read from logs for responses that are not passed to a connection yet. ``more_bytes`` may be
        negative."""
        self._read_bytes += more_bytes
        self._total_bytes += more_bytes
        assert self._read_bytes >= 0

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` once when the budget has room again."""
        self._waiting[go_on] = None
        self._watch()

    def forget(self, go_on: Callable[[], None]) -> None:
        """Undo `wait`: ``go_on`` is no longer called."""
        self._waiting.pop(go_on, None)

    def _refreshed(self) -> int:
        """Update the total of unread bytes, because sockets send bytes without notifying the budget."""
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
        stalled = [h for h, (_, since_ms) in self._progress.items() if now_ms - since_ms >= self.stall_ms]
        for holder in sorted(stalled, key=lambda h: -self._holders[h]):
            if self._total_bytes < self.limit_bytes:
                return
            self.closed_count += 1
            self.remove(holder)
            holder.abort(f"the client has read no response for {self.stall_ms} ms, and other connections wait for memory")


class RequestBudget:
    """Limits the bytes of requests without a response: unfinished frames, and large or waiting requests.

    The limit is Kafka's ``queued.max.request.bytes``; below 0 there is no limit. While the budget is used up, connections wait in
    order for larger buffers. The first waiting connection may exceed the limit, so that a request larger than the free part is not
    refused forever. No other connection may exceed it until that request has its response, so the limit is exceeded by at most one
    request. While connections wait, a connection with an unfinished frame is closed if no byte arrives for
    ``ottla.request.stall.ms``, and the connection that exceeds the limit is closed if its response is not sent within `FIRST_MS`.
    """

    def __init__(self, env: Env, limit_bytes: int, stall_ms: int) -> None:
        self._env = env
        self.limit_bytes = limit_bytes
        self.stall_ms = stall_ms
        self.closed_count = 0
        """Number of connections that were closed because other connections waited for memory."""
        self.used_bytes = 0
        self._charged: dict[BudgetHolder, int] = {}
        # For each connection with an unfinished frame, the time in ms at which its last bytes arrived.
        self._unfinished: dict[BudgetHolder, float] = {}
        self._waiting: dict[BudgetHolder, None] = {}
        # `_first` is the connection that may exceed the limit, since `_first_since_ms`. `_next` is the connection whose
        # `BudgetHolder.go_on` is being called, and which may become `_first`.
        self._first: BudgetHolder | None = None
        self._first_since_ms = 0.0
        self._next: BudgetHolder | None = None
        self._timer: Timer | None = None

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def is_used_up(self) -> bool:
        return 0 <= self.limit_bytes <= self.used_bytes

    def ask(self, holder: BudgetHolder, size_bytes: int) -> bool:
        """Whether a connection may use ``size_bytes`` for an unfinished frame. If so, the bytes are counted.

        If not, the connection must wait, and its `BudgetHolder.go_on` is called later.
        """
        more = size_bytes - self._charged.get(holder, 0)
        if more > 0 and 0 <= self.limit_bytes < self.used_bytes + more and not self._become_first(holder):
            self._waiting[holder] = None
            self._watch()
            return False
        self.charge(holder, size_bytes, is_unfinished=True)
        return True

    def charge(self, holder: BudgetHolder, size_bytes: int, *, is_unfinished: bool = False) -> None:
        """Set the bytes that a connection uses, without a check.

        ``is_unfinished``: the bytes belong to a frame that has not arrived completely.
        """
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

    def remove(self, holder: BudgetHolder) -> None:
        """Forget a connection that was closed."""
        self.charge(holder, 0)
        self._waiting.pop(holder, None)

    def _become_first(self, holder: BudgetHolder) -> bool:
        """Let a connection exceed the limit unless another connection already does. Returns whether ``holder`` may exceed it."""
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
            # The connection calls `ask` again, and waits again if its request still does not fit. A connection that is paused for
            # another reason calls `ask` later.
            del self._waiting[holder]
            self._next = holder
            holder.go_on()
        self._next = None
        if self._waiting:
            self._watch()

    def _close_stalled(self, now_ms: float) -> None:
        if self._first is not None and now_ms - self._first_since_ms >= FIRST_MS:
            self._close(self._first, f"was not answered within {FIRST_MS:.0f} ms")
        for holder, since_ms in list(self._unfinished.items()):
            if now_ms - since_ms >= self.stall_ms and holder not in self._waiting:
                self._close(holder, f"has not received data for {self.stall_ms} ms")

    def _close(self, holder: BudgetHolder, what: str) -> None:
        self.closed_count += 1
        self.remove(holder)
        holder.abort(f"a request {what}, and other connections wait for its memory")
