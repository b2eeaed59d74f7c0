"""The interface of the group coordinator to the cluster's topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Protocol


class GroupTopics(Protocol):
    """The topics that exist now. The newer protocols name topics by id in assignments, and by name in subscriptions."""

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int:
        """Return the number of partitions, 0 for a topic that does not exist."""
        ...

    def topic_names(self) -> Collection[str]:
        """Return the names of all topics, in the order of their creation."""
        ...


def metadata_hash(subscribed: Iterable[str], topics: GroupTopics) -> int:
    """Return a hash of the ids and partition counts of the subscribed topics that exist, 0 if there are none.

    Kafka uses another hash function, so a group that moves between Apache Kafka and ottla rebalances once.
    """
    digest, is_empty = blake2b(digest_size=8), True
    for name in sorted(subscribed):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            is_empty = False
            digest.update(topic_id + topics.partition_count(name).to_bytes(4, "big"))
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)


def subscribed_ids(names: Iterable[str], topics: GroupTopics) -> frozenset[bytes]:
    """Return the ids of those topics in ``names`` that exist."""
    return frozenset(topic_id for topic_id in map(topics.topic_id, names) if topic_id is not None)
