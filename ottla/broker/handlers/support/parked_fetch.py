"""Parks a fetch until there is data and room in the response budget, or until its timeout (Kafka's DelayedFetch)."""

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
    """A parked fetch: reads data, and builds the response."""

    def listen(self, wakeup: Wakeup) -> None:
        """Have the partitions call ``wakeup`` soon after their next append. Several appends may cause only one call."""
        ...

    def ignore(self, wakeup: Wakeup) -> None:
        """Undo `listen`: the partitions no longer call ``wakeup``."""
        ...

    def may_have_enough(self) -> bool:
        """Whether another read may find enough data for a response."""
        ...

    async def read(self, *, is_last: bool) -> A_co | None:
        """Read data; returns the response, or None if the fetch must keep waiting.

        ``is_last``: the timeout is over, so respond in any case.
        """
        ...


async def read_when_woken(ports: Ports, fetching: Fetching[A], wakeup: Wakeup) -> A:
    """Park a fetch. Whenever there may be enough data, read again, until a read returns a response.

    Before each read the fetch listens for changes, so it notices data that arrives between the read's steps. Stops ``wakeup`` at
    the end.
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
    while budget.is_used_up:
        room: Pause[None] = Pause(is_parked=True)
        budget.wait(room.end)
        try:
            await room
        finally:
            budget.forget(room.end)
