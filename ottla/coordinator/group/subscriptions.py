"""Subscriptions by a regular expression (KIP-848's SubscribedTopicRegex): which of the topics that there are one stands for.

An expression has to match a topic's whole name. Internal topics are no exception, as in Kafka. Who may see which topic is for the
caller to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from typing import TypeVar

from ottla.coordinator.expressions import InvalidExpression, compiled, match_work
from ottla.coordinator.group.topics import Topics

T = TypeVar("T")

Steps = Generator[Callable[[], None], None, T]
"""Each step runs beside the event loop (`storage.steps`): expressions of some characters may take 20 ms to compile, and 15 to match
one name."""
Expansions = Mapping[str, frozenset[str] | InvalidExpression]
"""The topics by the expression that stands for them, or why it stands for none."""

WORK_A_STEP = 5_000
"""Units of `expressions.match_work`, together 10 ms at most, so that several who ask take turns."""
COMPILE_WORK = 50
"""What it takes to compile a usual expression, in these units."""


def expanded(wanted: Callable[[], Collection[str]], topics: Topics) -> Steps[Expansions]:
    """What the expressions stand for that are ``wanted`` after the last step, among the topics that there are then.

    What becomes wanted, or is made, during the steps is tried in further ones. Where nothing is wanted there is no step.
    """
    tried = frozenset[str]()
    matching: dict[str, set[str] | InvalidExpression] = {}
    while True:
        expressions, names = wanted(), topics.topic_names()
        matching = {expression: matching[expression] for expression in expressions if expression in matching}
        if not expressions or (len(matching) == len(expressions) and tried.issuperset(names)):
            return {e: m if isinstance(m, InvalidExpression) else frozenset(m.intersection(names)) for e, m in matching.items()}
        every, fresh = list(names), [name for name in names if name not in tried]
        yield from _in_stretches(_try([(e, fresh if e in matching else every) for e in expressions], matching))
        tried = tried.union(every)


def _in_stretches(work: Iterator[None]) -> Steps[None]:
    is_over = False

    def stretch() -> None:
        nonlocal is_over
        is_over = next(work, True) is True

    while not is_over:
        yield stretch


def _try(tasks: Iterable[tuple[str, list[str]]], matching: dict[str, set[str] | InvalidExpression]) -> Iterator[None]:
    """Notes in ``matching`` which of its names each expression matches; a step is over whenever this yields."""
    work = 0
    for expression, names in tasks:
        try:
            pattern = compiled(expression)
        except InvalidExpression as error:
            matching[expression] = error
            continue
        before = matching.get(expression)
        matches = matching[expression] = before if isinstance(before, set) else set()
        work += COMPILE_WORK
        for name in names:
            if work >= WORK_A_STEP:
                work = 0
                yield None
            work += match_work(pattern, name)
            if pattern.fullmatch(name):
                matches.add(name)
