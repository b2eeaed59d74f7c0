"""What one connection keeps in memory, and what the budgets of all connections hear of it. Without a socket."""

from __future__ import annotations

from ottla.broker.budgets import SMALL_BYTES, Held, RequestBudget, ResponseBudget
from ottla.broker.network.answers import Answers
from ottla.broker.network.framing import Frames
from ottla.broker.network.holds import Hold

MAX_WAITING_ANSWERS = 1_000
"""Requests of one connection that wait for an answer before no further one is handled."""
MAX_WAITING_BYTES = 4 << 20
"""What the waiting requests of one connection may keep in memory before no further one is handled."""


class ConnectionMemory:
    """Counts small connections as nothing: budgets are told of those that keep more than `SMALL_BYTES`, and until they keep none.

    ``decoded_bytes`` is what a request that is worked off in steps keeps in memory, beside its bytes. The connection is given with
    each call and not kept: each would hold the other, and a connection that is gone is freed at once.
    """

    __slots__ = ("_answers", "_frames", "_requests", "_responses", "decoded_bytes", "has_unsent", "is_charged")

    def __init__(self, frames: Frames, answers: Answers, request_budget: RequestBudget, response_budget: ResponseBudget) -> None:
        self._frames = frames
        self._answers = answers
        self._requests = request_budget
        self._responses = response_budget
        self.decoded_bytes = 0
        self.is_charged = False
        """Whether the budget of requests counts this connection."""
        self.has_unsent = False
        """Whether the budget of answers counts it."""

    def charge(self, holder: Held, *, is_unfinished: bool = False) -> None:
        """Count what the requests of this connection keep in memory, where it is worth counting."""
        size_bytes = self._frames.own_bytes + self._answers.waiting_bytes + self.decoded_bytes
        if size_bytes > SMALL_BYTES or self.is_charged:
            self.is_charged = size_bytes > 0
            self._requests.charge(holder, size_bytes, is_unfinished=is_unfinished)

    def release(self, holder: Held) -> None:
        """The connection is gone, and none of its requests is worked off any more."""
        self.decoded_bytes = 0
        self.is_charged = False
        self._frames.discard()
        self._requests.remove(holder)

    def settle(self, holder: Held, *, is_held: bool) -> int:
        """The requests handled so far are done with: keep what is unread in as little memory as it needs.

        Gives the `Hold` that the connection has to take for it, 0 for none. ``is_held``: it has one already.
        """
        frames = self._frames
        if not (frames.unread_bytes or frames.own_bytes or self.is_charged or len(self._answers)):
            frames.settle()
            return 0
        is_unfinished = bool(frames.unread_bytes and not is_held)
        if is_unfinished:
            # The beginning of a frame. Its buffer grows with it, as far as there is memory.
            needed_bytes = frames.needed_bytes() + self._answers.waiting_bytes
            if needed_bytes > SMALL_BYTES and not self._requests.ask(holder, needed_bytes):
                frames.settle(may_grow=False)
                self.charge(holder)
                return Hold.REQUESTS
        frames.settle()
        self.charge(holder, is_unfinished=is_unfinished)
        return Hold.WAITING if self.too_much_waits() else 0

    def too_much_waits(self) -> bool:
        """Whether no further request may be handled before one that waits is answered."""
        answers = self._answers
        if len(answers) >= MAX_WAITING_ANSWERS or answers.waiting_bytes >= MAX_WAITING_BYTES:
            return True
        return answers.waiting_bytes > SMALL_BYTES and self._requests.is_used_up

    def note_unsent(self, holder: Held, unsent_bytes: int) -> None:
        """Count what the client has not taken, where it is worth counting."""
        if unsent_bytes > SMALL_BYTES or self.has_unsent:
            self.has_unsent = unsent_bytes > 0
            self._responses.note(holder, unsent_bytes)
