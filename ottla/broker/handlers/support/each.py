"""Helpers for requests with many items: items are handled one after the other, in steps if they are many.

Nothing else runs between an item's checks and its change. Between two steps other requests run, so the state may change as between
two requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias, TypeVar

from ottla.protocol.steps import Pace, in_thread, next_turn

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer")
T = TypeVar("T")

Cost: TypeAlias = int | Callable[[Item], int]
"""Estimated time to handle an item, in units of 2 us, or a function that returns this time."""

MADE_AT_ONCE = 200
"""Number of elements of a request that are processed without a pause. This takes at most a few milliseconds."""


async def made(make: Callable[[], T], count: int) -> T:
    """Return the result of ``make``, which reads ``count`` elements of a request. For many elements ``make`` runs in a worker
    thread.

    So it must not read state that may change.
    """
    if count <= MADE_AT_ONCE:
        return make()
    results: list[T] = []
    await in_thread(lambda: results.append(make()))
    return results[0]


class Named(Protocol):
    """A named item of a request."""

    name: str


NamedItem = TypeVar("NamedItem", bound=Named)


async def counted_by_name(asked: list[NamedItem]) -> list[tuple[NamedItem, int]]:
    """For each name, its last entry and its number of occurrences, because APIs refuse repeated names.

    Names are in the request's order.
    """

    def count() -> list[tuple[NamedItem, int]]:
        times = Counter(item.name for item in asked)
        return [(item, times[name]) for name, item in {item.name: item for item in asked}.items()]

    return await made(count, len(asked))


async def each(
    items: Iterable[Item],
    one: Callable[[Item], Result],
    answer: Callable[[Iterator[Result]], Answer],
    *,
    work: Cost[Item],
    groups: int = 0,
) -> Answer:
    """Handle the items, and build the response from their results.

    ``groups`` is the number of topics or similar elements in the response; a topic may have no items. ``answer`` gets the results
    in the order of the items. After a pause it runs in a worker thread, so it must not read state that may change.
    """
    pace, is_long = Pace(double_first=True), groups > MADE_AT_ONCE
    results: list[Result] = []
    done = 0
    for item in items:
        # Before each item, count the work of the previous item, so that a request with one item has no pause.
        if pace.spend(done):
            is_long = True
            await next_turn()
        done = work if isinstance(work, int) else work(item)
        results.append(one(item))
    if not is_long and not pace.spend(done):
        return answer(iter(results))
    answers: list[Answer] = []
    await in_thread(lambda: answers.append(answer(iter(results))))
    return answers[0]
