"""Limits how many topics members may subscribe to by name, because each change of a member walks over all these topics."""

from __future__ import annotations

from collections.abc import Mapping, Sized

from ottla.protocol.errors import Code, KafkaError

MAX_MEMBER_TOPICS = 3_000
"""How many topics one member may name; each takes 2 to 4 us, without a pause. A regular expression may match any number."""
MAX_GROUP_TOPICS = 10_000
"""How many topics all members of a group may name together."""


def check_member_topics(names: Sized) -> None:
    """Raises INVALID_REQUEST where a member names more than `MAX_MEMBER_TOPICS`."""
    if len(names) > MAX_MEMBER_TOPICS:
        message = f"A member subscribes to {len(names)} topics by name, and may subscribe to {MAX_MEMBER_TOPICS} at most."
        raise KafkaError(Code.INVALID_REQUEST, message)


def check_group_topics(subscribers: Mapping[str, int], before: frozenset[str], after: frozenset[str]) -> None:
    """Check a member that changes its topics from ``before`` to ``after``. Raises INVALID_REQUEST.

    ``subscribers`` has the number of the group's members by topic, and counts the member with ``before``.
    """
    if len(subscribers) + len(after) <= MAX_GROUP_TOPICS or after <= before:
        return
    given_up = sum(subscribers.get(name) == 1 for name in before - after)
    check_topic_count(len(subscribers) - given_up + sum(name not in subscribers for name in after))


def check_topic_count(count: int) -> None:
    """``count`` is the number of topics that all members of a group name together. Raises INVALID_REQUEST."""
    if count > MAX_GROUP_TOPICS:
        message = f"The members of a group subscribe to {count} topics by name, and may subscribe to {MAX_GROUP_TOPICS} at most."
        raise KafkaError(Code.INVALID_REQUEST, message)
