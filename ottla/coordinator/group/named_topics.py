"""Limits how many topics members may subscribe to by name, because each change of a member reads all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sized

from ottla.protocol.errors import Code, KafkaError

MAX_MEMBER_TOPICS = 3_000
"""Maximum number of topics that one member may name, as each topic blocks the event loop for 2 to 4 us. Regular expressions may
match more topics."""
MAX_GROUP_TOPICS = 10_000
"""Maximum number of topics that all members of a group together may name."""


def check_member_topics(names: Sized) -> None:
    """Raise INVALID_REQUEST if a member names more than `MAX_MEMBER_TOPICS`."""
    if len(names) > MAX_MEMBER_TOPICS:
        message = f"A member subscribes to {len(names)} topics by name, and may subscribe to {MAX_MEMBER_TOPICS} at most."
        raise KafkaError(Code.INVALID_REQUEST, message)


def check_group_topics(subscribers: Mapping[str, int], before: frozenset[str], after: frozenset[str]) -> None:
    """Raise INVALID_REQUEST if a member's change from topics ``before`` to ``after`` would exceed `MAX_GROUP_TOPICS`.

    ``subscribers`` maps topics to the number of subscribed members, and counts the member with ``before``.
    """
    if len(subscribers) + len(after) <= MAX_GROUP_TOPICS or after <= before:
        return
    given_up = sum(subscribers.get(name) == 1 for name in before - after)
    check_topic_count(len(subscribers) - given_up + sum(name not in subscribers for name in after))


def check_topic_count(count: int) -> None:
    """Raise INVALID_REQUEST if a group's members together name too many topics."""
    if count > MAX_GROUP_TOPICS:
        message = f"The members of a group subscribe to {count} topics by name, and may subscribe to {MAX_GROUP_TOPICS} at most."
        raise KafkaError(Code.INVALID_REQUEST, message)
