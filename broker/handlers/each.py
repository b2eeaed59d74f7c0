"""Handlers that do one thing after the other for each of many: at once where they are few, else in steps.

What is done for one item is a synchronous stretch, so nothing can come between its check and its change. Other clients'
requests run between two steps; each item finds things as they are then, as if it had come in a request of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeAlias, TypeVar

from storage.steps import Pace, Steps

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer")

Handled: TypeAlias = Answer | Steps[Answer]
"""What a handler gives whose answer may take steps."""

WORK_AT_ONCE = 2_000
"""Units of about two microseconds, as in `storage.steps`, that a request may take without a step."""


def for_each(
    items: Iterable[Item], one: Callable[[Item], Result], answer: Callable[[Iterator[Result]], Answer], *, work: int
) -> Handled[Answer]:
    """The answer made of the results of all items, or the steps that lead to it.

    ``work`` is how many units of about two microseconds one item takes. ``answer`` gets the results in the items' order and
    must depend on nothing else that may change: after steps it is called beside the event loop.
    """
    remaining = iter(items)
    first = list(islice(remaining, WORK_AT_ONCE // work + 1))
    if len(first) * work <= WORK_AT_ONCE:
        return answer(iter([one(item) for item in first]))
    return _in_steps(chain(first, remaining), one, answer, work)


def _in_steps(
    items: Iterable[Item], one: Callable[[Item], Result], answer: Callable[[Iterator[Result]], Answer], work: int
) -> Steps[Answer]:
    pace = Pace()
    results: list[Result] = []
    for item in items:
        results.append(one(item))
        if pace.is_over(work):
            yield None
    answers: list[Answer] = []
    yield lambda: answers.append(answer(iter(results)))
    return answers[0]
