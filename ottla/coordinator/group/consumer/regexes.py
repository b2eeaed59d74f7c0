"""Subscriptions by a regular expression: which topics one stands for, as the log has it (TopicRegexResolver of Kafka).

Kafka finds that out in the background, and its group rebalances when it is known. Here a heartbeat finds it out before it is
decided upon (`ConsumerGroups.expansions`): the one that asks for a new expression, and the first one after topics were made or
deleted. Others that come meanwhile go on with what was known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.coordinator.expressions import InvalidExpression
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerGroupMember
from ottla.coordinator.group.consumer.records import regex_record, regex_tombstone
from ottla.coordinator.group.subscriptions import Expansions
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code, KafkaError

Resolved = Mapping[str, frozenset[str]]
"""Topics by the expression that stands for them."""


class Resolution(NamedTuple):
    """``is_current``: whether the group's topics may be looked at, because nothing is known of before a change of them alone."""

    regexes: Resolved
    records: list[LogRecord]
    is_current: bool


def resolve(
    group: ConsumerGroup, before: ConsumerGroupMember, member: ConsumerGroupMember, expansions: Expansions, now_ms: int
) -> Resolution:
    """The topics of all expressions with ``member`` in the place of ``before``, and the records of what is new of that.

    An expression that cannot be compiled keeps the topics of before: a log may have it from a broker that could. Raises
    INVALID_REGULAR_EXPRESSION for one that the member has just come with.
    """
    if before.topic_regex == member.topic_regex and not (group.is_stale and group.regex_subscribers):
        return Resolution(group.regexes, [], is_current=True)
    counts = group.regex_subscribers.copy()
    counts.subtract([before.topic_regex] if before.topic_regex else [])
    counts.update([member.topic_regex] if member.topic_regex else [])
    regexes, is_current = dict[str, frozenset[str]](), True
    records = [regex_tombstone(group.group_id, regex) for regex in group.regexes if counts[regex] <= 0]
    for regex, count in counts.items():
        if count <= 0:
            continue
        known, expansion = group.regexes.get(regex), expansions.get(regex)
        if expansion is None:
            is_current = is_current and known is not None and not group.is_stale
        elif isinstance(expansion, InvalidExpression):
            if regex == member.topic_regex != before.topic_regex and known is None:
                message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {expansion}."
                raise KafkaError(Code.INVALID_REGULAR_EXPRESSION, message)
        elif expansion != known:
            known = expansion
            records.append(regex_record(group.group_id, regex, known, now_ms))
        if known is not None:
            regexes[regex] = known
    return Resolution(regexes, records, is_current)
