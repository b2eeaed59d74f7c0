"""Subscriptions by regular expression: error messages as in Kafka, matching of whole names, and limits of time and memory."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable

import pytest

from ottla.coordinator import expressions
from ottla.coordinator.expressions import InvalidExpression
from ottla.coordinator.group.subscriptions import Expansions, expanded
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import run
from tests.coordinator.consumer_world import Consumer, ConsumerGroupWorld, decided
from tests.coordinator.group_world import FakeTopics


def topics_of(regexes: Collection[str], names: Iterable[str]) -> tuple[Expansions, int]:
    """Expand the expressions. Returns the matching topics and the number of steps."""
    steps, generator = 0, expanded(lambda: regexes, FakeTopics(dict.fromkeys(names, 1)))
    while True:
        try:
            aside = generator.send(None)
        except StopIteration as end:
            return end.value, steps
        aside()
        steps += 1


def check(regex: str) -> None:
    expansion = topics_of([regex], ["a"])[0][regex]
    if isinstance(expansion, InvalidExpression):
        raise expansion


@pytest.mark.parametrize(
    ("regex", "description"),
    [
        ("(", "missing closing )"),
        ("[", "missing closing ]"),
        (")", "regexp/syntax: internal error"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("(?P<n", "invalid named capture"),
        ("[b-a]", "invalid character class range"),
        ("\\8", "invalid escape sequence"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("a\\", "trailing backslash at end of expression"),
    ],
)
def test_invalid_subscription_expression_is_refused_with_kafkas_message(regex: str, description: str) -> None:
    """The expected messages are from RE2/J 1.8, which Kafka 4.4 uses."""
    world = ConsumerGroupWorld()
    with pytest.raises(KafkaError) as refused:
        world.join(Consumer("a"), topic_names=[], topic_regex=regex)
    assert refused.value.code == Code.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {description}."
    assert not world.shard.groups


def test_subscription_expression_matches_whole_names_and_internal_topics() -> None:
    names = ["orders", "orders-1", "my-orders", "__consumer_offsets"]
    assert topics_of(["orders.*", ".*", "(?i)ORDERS", "nothing"], names)[0] == {
        "orders.*": {"orders", "orders-1"},
        ".*": set(names),
        "(?i)ORDERS": {"orders"},
        "nothing": set(),
    }


def test_resolving_no_subscription_expressions_takes_no_steps() -> None:
    assert topics_of([], ["a"]) == ({}, 0)


def test_invalid_subscription_expression_does_not_affect_other_expressions() -> None:
    expansions, _ = topics_of(["(", "a"], ["a"])
    assert expansions["a"] == {"a"}
    assert isinstance(expansions["("], InvalidExpression)


def test_without_re2_new_expressions_are_refused_and_resolved_expressions_still_match(monkeypatch: pytest.MonkeyPatch) -> None:
    world, a = ConsumerGroupWorld(), Consumer("a")
    world.join(a, topic_names=[], topic_regex="t.*")
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(KafkaError, match="expressions need google-re2: pip install google-re2"):
        world.beat(a, topic_regex="a.*")
    world.topics.counts["t2"] = 1
    world.shard.topic_changed("t2")
    world.beat(a)
    assert world.group.regexes == {"t.*": {"t"}}


def test_long_or_costly_subscription_expressions_are_refused() -> None:
    check("a" * expressions.MAX_EXPRESSION_CHARACTERS)
    for regex in ("a" * (expressions.MAX_EXPRESSION_CHARACTERS + 1), "(?i)(\\pL?){1000}", "(?:.{0,1000})(?:.{0,1000})"):
        with pytest.raises(InvalidExpression):
            check(regex)


def test_number_of_cached_subscription_expressions_is_limited() -> None:
    import re2

    topics_of([f"topic-{number}" for number in range(3 * expressions.COMPILED_EXPRESSIONS)], ["a"])
    assert expressions._compiled.cache_info().currsize == expressions.COMPILED_EXPRESSIONS
    assert re2._Regexp._make.cache_info().currsize == 0


@pytest.mark.smoke
def test_resolving_many_topics_and_slow_subscription_expressions_takes_many_steps() -> None:
    names = [f"topic-{number}" for number in range(5_000)]
    assert topics_of(["topic-1"], names[:100])[1] == 1
    assert topics_of(["topic-1"], names)[1] > 1
    assert topics_of(["(a?){1000}"], [f"{'a' * 247}{number}" for number in range(10, 30)])[1] >= 10


def test_subscription_that_is_resolved_in_steps_includes_topics_created_between_the_steps() -> None:
    topics, wanted = FakeTopics(dict.fromkeys(["a1", "b1"], 1)), ["a.*"]
    steps = expanded(lambda: wanted, topics)
    steps.send(None)()
    topics.counts["a2"] = 1
    del topics.counts["a1"]
    wanted.append("b.*")
    steps.send(None)()
    topics.counts["a3"] = 1
    assert run(steps) == {"a.*": {"a2", "a3"}, "b.*": {"b1"}}


def test_resolving_regular_expressions_does_not_block_other_heartbeats() -> None:
    """As in Kafka, one heartbeat resolves the expressions of the whole group, while other heartbeats are processed."""
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a, topic_names=[], topic_regex="t.*")
    world.join(b, topic_names=["t"])
    world.settle(a, b)
    world.topics.counts["t2"] = 2
    world.shard.topic_changed("t2")
    beat = world.heartbeat_of(a)
    steps = world.shard.expansions(beat)
    steps.send(None)()
    before = len(world.log)
    world.beat(b)
    assert len(world.log) == before
    assert world.group.is_stale
    world.beat(b, topic_names=[], topic_regex=".*2")
    assert world.group.regexes == {"t.*": {"t"}, ".*2": {"t2"}}
    a.take(world.run(world.shard.heartbeat(beat, world.now_ms, run(steps))))
    assert world.group.regexes == {"t.*": {"t", "t2"}, ".*2": {"t2"}}
    assert not world.group.is_stale
    assert not world.group.is_resolving
    world.settle(a, b)
    assert (a.owns("t"), len(a.owns("t2")), len(b.owns("t2"))) == ({0, 1, 2, 3}, 1, 1)
    world.check_reloaded()


def test_next_heartbeat_resolves_subscription_expressions_after_an_abandoned_resolution() -> None:
    world, a = ConsumerGroupWorld(), Consumer("a")
    world.join(a, topic_names=[], topic_regex="t.*")
    world.topics.counts["t2"] = 1
    world.shard.topic_changed("t2")
    steps = world.shard.expansions(world.heartbeat_of(a))
    steps.send(None)
    steps.close()
    world.beat(a)
    assert world.group.regexes == {"t.*": {"t", "t2"}}


def test_loaded_group_resolves_subscription_expressions_that_have_no_stored_topics() -> None:
    """Kafka logs the record of a member before it resolves the member's regular expression."""
    world, a = ConsumerGroupWorld(), Consumer("a")
    world.join(a, topic_names=[], topic_regex="t.*")
    world.log = [record for record in world.log if record.key is None or record.key[:2] != b"\x00\x10"]
    world.shard = world.reloaded()
    beat = world.heartbeat_of(a)
    result = world.shard.heartbeat(beat, world.now_ms, {})
    assert not result.records
    world.run(decided(world.shard, beat, world.now_ms))
    assert world.group.regexes == {"t.*": {"t"}}
