"""How many topics the members of a modern group may subscribe to by name: each change of a member looks at all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sized

from ottla.protocol.errors import Code, KafkaError

MAX_MEMBER_TOPICS = 3_000
"""Of one member, at 2 to 4 us each in one stretch. An expression stands for any number."""
MAX_GROUP_TOPICS = 10_000
"""Of all members of a group together."""


def check_member_topics(names: Sized) -> None:
    """Raises INVALID_REQUEST."""
    if len(names) > MAX_MEMBER_TOPICS:
        message = f"A member subscribes to {len(names)} topics by name, and may subscribe to {MAX_MEMBER_TOPICS} at most."
        raise KafkaError(Code.INVALID_REQUEST, message)


def check_group_topics(subscribers: Mapping[str, int], before: frozenset[str], after: frozenset[str]) -> None:
    """``subscribers`` counts a group's members by topic, among them one that subscribed to ``before``. Raises INVALID_REQUEST."""
    if len(subscribers) + len(after) <= MAX_GROUP_TOPICS or after <= before:
        return
    given_up = sum(subscribers.get(name) == 1 for name in before - after)
    check_topic_count(len(subscribers) - given_up + sum(name not in subscribers for name in after))


def check_topic_count(count: int) -> None:
    """Of all topics that a group's members name together. Raises INVALID_REQUEST."""
    if count > MAX_GROUP_TOPICS:
        message = f"The members of a group subscribe to {count} topics by name, and may subscribe to {MAX_GROUP_TOPICS} at most."
        raise KafkaError(Code.INVALID_REQUEST, message)
