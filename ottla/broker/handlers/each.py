"""Handlers that do one thing after the other for each of many: at once where they are few, else in steps.

What is done for one item is a synchronous stretch, so nothing can come between its check and its change. Other clients'
requests run between two steps; each item finds things as they are then, as if it had come in a request of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias, TypeVar

from ottla.storage.steps import Pace, Steps, begun

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer")
T = TypeVar("T")

Handled: TypeAlias = Answer | Steps[Answer]
"""What a handler returns: the answer, or the generator of steps that ends with it."""

Work: TypeAlias = int | Callable[[Item], int]
"""Units of about two microseconds, as in `storage.steps`, that one item takes, or how to tell of each before it is done."""

MADE_AT_ONCE = 200
"""Elements of a request that are looked at together without a step: with texts as long as they come, a few milliseconds' work."""


def made(make: Callable[[], T], count: int) -> Steps[T]:
    """What ``make`` finds in the ``count`` elements of a request, and in nothing that may change: beside the loop where many."""
    if count <= MADE_AT_ONCE:
        return make()
    results: list[T] = []
    yield lambda: results.append(make())
    return results[0]


class Named(Protocol):
    """What a request names."""

    name: str


NamedItem = TypeVar("NamedItem", bound=Named)


def counted_by_name(asked: list[NamedItem]) -> Steps[list[tuple[NamedItem, int]]]:
    """Each name's last entry, in the order of the first ones, and how often it is named: naming a topic twice is an error."""

    def count() -> list[tuple[NamedItem, int]]:
        times = Counter(item.name for item in asked)
        return [(item, times[name]) for name, item in {item.name: item for item in asked}.items()]

    return made(count, len(asked))


def for_each(
    items: Iterable[Item],
    one: Callable[[Item], Result],
    answer: Callable[[Iterator[Result]], Answer],
    *,
    work: Work[Item],
    groups: int = 0,
) -> Handled[Answer]:
    """The answer made of the results of all items, or the steps that lead to it.

    ``groups`` is how many topics, or the like, the answer has beside the items, which may have no items at all.
    ``answer`` gets the results in the items' order and must depend on nothing else that may change: after steps it is called
    beside the event loop.
    """
    return begun(each(items, one, answer, work=work, groups=groups))


def each(
    items: Iterable[Item],
    one: Callable[[Item], Result],
    answer: Callable[[Iterator[Result]], Answer],
    *,
    work: Work[Item],
    groups: int = 0,
) -> Steps[Answer]:
    """The steps of `for_each`, for a handler that has others before them."""
    pace, is_long = Pace(begun=True), groups > MADE_AT_ONCE
    results: list[Result] = []
    done = 0
    for item in items:
        # Before each but the first: a request of one item is one stretch.
        if pace.is_over(done):
            is_long = True
            yield None
        done = work if isinstance(work, int) else work(item)
        results.append(one(item))
    if not is_long and not pace.is_over(done):
        return answer(iter(results))
    answers: list[Answer] = []
    yield lambda: answers.append(answer(iter(results)))
    return answers[0]
