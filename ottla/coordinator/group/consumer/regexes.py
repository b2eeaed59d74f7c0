"""Subscriptions by regular expression, and the logged topics that match each (TopicRegexResolver of Kafka).

Kafka resolves expressions in the background, and the group rebalances afterwards. Here the heartbeat that needs the topics resolves
the expressions before it is decided (`ConsumerGroups.expansions`): a heartbeat with a new expression, and the first heartbeat after
topics were created or deleted. Other heartbeats use the last resolved topics meanwhile.
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
"""The topics that match each regular expression."""


class Resolution(NamedTuple):
    """The topics of a group's regular expressions. ``is_current`` is False if topics have changed and some expressions are not
    resolved again yet. Then the topics are not compared with the ``metadata_hash``."""

    regexes: Resolved
    records: list[LogRecord]
    is_current: bool


def resolve(
    group: ConsumerGroup, before: ConsumerGroupMember, member: ConsumerGroupMember, expansions: Expansions, now_ms: int
) -> Resolution:
    """Return the topics of all expressions once ``member`` has replaced ``before``, and records of new or changed expressions.

    An expression that does not compile keeps its topics, because another broker that could compile it may have logged them. Raises
    INVALID_REGULAR_EXPRESSION for an expression that is new with this member.
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
