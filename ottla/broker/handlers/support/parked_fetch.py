"""A fetch that waits for data, for room in the response budget, or for its timeout (Kafka's DelayedFetch)."""

from __future__ import annotations

from typing import Protocol, TypeVar

from ottla.broker.limits.memory_budgets import ResponseBudget
from ottla.broker.loop.env import Timers
from ottla.broker.loop.wakeup import Wakeup
from ottla.protocol.steps import Pause

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Ports(Protocol):
    @property
    def timers(self) -> Timers: ...

    @property
    def response_budget(self) -> ResponseBudget: ...


class Fetching(Protocol[A_co]):
    """The fetch that is parked: reads data and builds the response."""

    def listen(self, wakeup: Wakeup) -> None:
        """Wake ``wakeup`` soon after the next append; one call covers several appends."""
        ...

    def ignore(self, wakeup: Wakeup) -> None:
        """Undo `listen`."""
        ...

    def may_have_enough(self) -> bool:
        """Whether another read may return enough data for a response."""
        ...

    async def read(self, *, is_last: bool) -> A_co | None:
        """The response, or None if the fetch must keep waiting. With ``is_last``, after the timeout, always a response."""
        ...


async def read_when_woken(ports: Ports, fetching: Fetching[A], wakeup: Wakeup) -> A:
    """Park a fetch, and read again whenever there may be enough data, until a read returns a response.

    The fetch listens before each read, so that data which arrives between the steps of a read is noticed. Stops ``wakeup``.
    """
    try:
        fetching.listen(wakeup)
        while True:
            await wakeup.wait()
            await _room(ports.response_budget)
            fetching.listen(wakeup)
            if wakeup.is_over or fetching.may_have_enough():
                response = await fetching.read(is_last=wakeup.is_over)
                if response is not None:
                    return response
    finally:
        wakeup.stop()
        fetching.ignore(wakeup)


async def _room(budget: ResponseBudget) -> None:
    """Wait while the budget has no room for a response that may be large."""
    while budget.is_used_up:
        room: Pause[None] = Pause(is_parked=True)
        budget.wait(room.end)
        try:
            await room
        finally:
            budget.forget(room.end)
