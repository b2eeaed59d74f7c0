"""What the coordinators of groups ask of the cluster's metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Protocol


class Topics(Protocol):
    """The topics that exist now. Groups of the newer protocols name topics by id, subscriptions by name."""

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int:
        """0 for a topic that does not exist."""
        ...

    def topic_names(self) -> Collection[str]:
        """In the order in which the topics were made."""
        ...


def metadata_hash(subscribed: Iterable[str], topics: Topics) -> int:
    """One number for the topics that the members subscribe to, as they are now; 0 without any.

    Kafka has another function for the same: a group that changes over between the two rebalances once.
    """
    digest, is_empty = blake2b(digest_size=8), True
    for name in sorted(subscribed):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            is_empty = False
            digest.update(topic_id + topics.partition_count(name).to_bytes(4, "big"))
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)


def subscribed_ids(names: Iterable[str], topics: Topics) -> frozenset[bytes]:
    """Topics that do not exist are left out."""
    return frozenset(topic_id for topic_id in map(topics.topic_id, names) if topic_id is not None)
