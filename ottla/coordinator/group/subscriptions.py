"""Finds the topics that match a subscribed regular expression (SubscribedTopicRegex of KIP-848).

An expression must match a topic's whole name. Internal topics may match, too, as in Kafka. The caller checks which topics a client
may see.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ottla.coordinator.expressions import InvalidExpression, compiled, match_work
from ottla.coordinator.group.topics import GroupTopics
from ottla.protocol.steps import in_thread

Expansions = Mapping[str, frozenset[str] | InvalidExpression]
"""The matching topics by expression, or the error of an expression that does not compile."""

WORK_A_STEP = 5_000
"""Work of one step, in units of `expressions.match_work`: at most 10 ms, so that other requests run between two steps."""
COMPILE_WORK = 50
"""Work of compiling a typical expression, in units of `expressions.match_work`."""


async def expanded(wanted: Callable[[], Collection[str]], topics: GroupTopics) -> Expansions:
    """Return the existing topics that match each wanted expression.

    The steps run in another thread, because a short expression may take 20 ms to compile, and 15 ms to match one name.

    Expressions and topics that are added during the steps are matched in further steps. Without expressions there is no step.
    """
    tried = frozenset[str]()
    matching: dict[str, set[str] | InvalidExpression] = {}
    while True:
        expressions, names = wanted(), topics.topic_names()
        matching = {expression: matching[expression] for expression in expressions if expression in matching}
        if not expressions or (len(matching) == len(expressions) and tried.issuperset(names)):
            return {e: m if isinstance(m, InvalidExpression) else frozenset(m.intersection(names)) for e, m in matching.items()}
        every, fresh = list(names), [name for name in names if name not in tried]
        await _in_stretches(_try([(e, fresh if e in matching else every) for e in expressions], matching))
        tried = tried.union(every)


async def _in_stretches(work: Iterator[None]) -> None:
    is_over = False

    def stretch() -> None:
        nonlocal is_over
        is_over = next(work, True) is True

    while not is_over:
        await in_thread(stretch)


def _try(tasks: Iterable[tuple[str, list[str]]], matching: dict[str, set[str] | InvalidExpression]) -> Iterator[None]:
    """Add the names that match each expression to ``matching``. Yields at the end of each step."""
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
