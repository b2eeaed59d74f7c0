"""Valid and invalid subscriptions and assignments for JoinGroup and SyncGroup."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ottla.protocol.codec import encode_record
from ottla.protocol.messages import consumer_protocol_assignment, consumer_protocol_subscription


def subscription(rng: random.Random, topics: Sequence[str]) -> bytes:
    """Return a subscription of the consumer protocol. One in ten is truncated."""
    message = consumer_protocol_subscription.ConsumerProtocolSubscription(topics=list(topics))
    raw = encode_record(consumer_protocol_subscription, message, rng.choice((0, 1, 2, 3)))
    return raw if rng.random() < 0.9 else raw[: rng.randrange(len(raw))]


def assignment(topics: Sequence[tuple[str, list[int]]]) -> bytes:
    module = consumer_protocol_assignment
    parts = [module.TopicPartition(topic=topic, partitions=partitions) for topic, partitions in topics]
    return encode_record(module, module.ConsumerProtocolAssignment(assigned_partitions=parts), 0)
