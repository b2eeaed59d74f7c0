"""Counts the memory of one connection, without a socket, and reports it to the budgets of all connections."""

from __future__ import annotations

from ottla.broker.limits.memory_budgets import SMALL_BYTES, BudgetHolder, RequestBudget, ResponseBudget
from ottla.broker.network.answers import Answers
from ottla.broker.network.framing import Frames
from ottla.broker.network.pause_reasons import Hold

MAX_WAITING_ANSWERS = 1_000
"""Maximum number of requests of a connection that wait for their responses. At this number no further request is handled."""
MAX_WAITING_BYTES = 4 << 20
"""Maximum memory in bytes of the waiting requests of a connection. At this size no further request is handled."""


class ConnectionMemory:
    """The memory of one connection. Once it has exceeded `SMALL_BYTES`, the budgets count it until it is 0.

    ``decoded_bytes`` is the memory of a request that is handled in steps, without its frame. The connection (``holder``) is an
    argument and not an attribute, because a reference cycle would delay freeing a closed connection.
    """

    __slots__ = ("_answers", "_frames", "_requests", "_responses", "decoded_bytes", "has_unsent", "is_charged")

    def __init__(self, frames: Frames, answers: Answers, request_budget: RequestBudget, response_budget: ResponseBudget) -> None:
        self._frames = frames
        self._answers = answers
        self._requests = request_budget
        self._responses = response_budget
        self.decoded_bytes = 0
        self.is_charged = False
        """Whether the request budget counts this connection."""
        self.has_unsent = False
        """Whether the response budget counts this connection."""

    def charge(self, holder: BudgetHolder, *, is_unfinished: bool = False) -> None:
        """Report the memory of this connection's requests to the request budget, unless it is small."""
        size_bytes = self._frames.own_bytes + self._answers.waiting_bytes + self.decoded_bytes
        if size_bytes > SMALL_BYTES or self.is_charged:
            self.is_charged = size_bytes > 0
            self._requests.charge(holder, size_bytes, is_unfinished=is_unfinished)

    def release(self, holder: BudgetHolder) -> None:
        """Free the memory of a connection that was closed and has no unfinished request."""
        self.decoded_bytes = 0
        self.is_charged = False
        self._frames.discard()
        self._requests.remove(holder)

    def settle(self, holder: BudgetHolder, *, is_held: bool) -> int:
        """Release the bytes of the handled requests, and keep the unread bytes in as little memory as possible.

        Returns the `Hold`, the reason to read no further requests of the client; 0 for none. ``is_held``: the connection already
        has a `Hold`.
        """
        frames = self._frames
        if not (frames.unread_bytes or frames.own_bytes or self.is_charged or len(self._answers)):
            frames.settle()
            return 0
        is_unfinished = bool(frames.unread_bytes and not is_held)
        if is_unfinished:
            # The unread bytes are the beginning of a frame. Its buffer may grow while the budget has room.
            needed_bytes = frames.needed_bytes() + self._answers.waiting_bytes
            if needed_bytes > SMALL_BYTES and not self._requests.ask(holder, needed_bytes):
                frames.settle(may_grow=False)
                self.charge(holder)
                return Hold.REQUESTS
        frames.settle()
        self.charge(holder, is_unfinished=is_unfinished)
        return Hold.WAITING if self.too_much_waits() else 0

    def too_much_waits(self) -> bool:
        """Whether the waiting requests are so many or so large that a response must be sent before the next request is handled."""
        answers = self._answers
        if len(answers) >= MAX_WAITING_ANSWERS or answers.waiting_bytes >= MAX_WAITING_BYTES:
            return True
        return answers.waiting_bytes > SMALL_BYTES and self._requests.is_used_up

    def note_unsent(self, holder: BudgetHolder, unsent_bytes: int) -> None:
        """Report the size of responses that the client has not read to the response budget, unless it is small."""
        if unsent_bytes > SMALL_BYTES or self.has_unsent:
            self.has_unsent = unsent_bytes > 0
            self._responses.note(holder, unsent_bytes)
