"""The changes of a sequence of metadata records, for components that follow the cluster's metadata (MetadataDelta of Kafka).

A delta names the changed topics, partitions and configs; their new state is in `ClusterState`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.coordinator.metadata.topics import Topic
from ottla.protocol.messages import config_record, feature_level_record, partition_record, remove_topic_record, topic_record

PARTITION_CHANGE, CLEAR_ELR = 5, 28
BROKER_RECORDS = frozenset({0, 1, 7, 8, 17})
"""The types of records that register or remove a broker, or change its fencing, controlled shutdown or directories. They are
numbers, because a cluster of one broker starts without the modules of such records."""

Topics = Mapping[bytes, Topic]


class MetadataDelta:
    """The changes since this object was created: each topic, partition or config once, in the order of first changes."""

    __slots__ = ("configs", "created", "deleted", "features", "grown", "has_changed_brokers", "partitions")

    def __init__(self) -> None:
        self.created: dict[bytes, None] = {}
        """The ids of new topics that still exist."""
        self.deleted: list[Topic] = []
        """Deleted topics in their last state."""
        self.partitions: dict[bytes, dict[int, None]] = {}
        """New and changed partitions of topics that are not new, by topic id."""
        self.grown: dict[bytes, None] = {}
        """The ids of the topics in `partitions` that have new partitions."""
        self.configs: dict[tuple[int, str], set[str]] = {}
        """The names of the configs that were set or deleted, perhaps to equal values, by the type and name of their resource."""
        self.features: dict[str, None] = {}
        self.has_changed_brokers = False

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.deleted or self.partitions or self.configs or self.features or self.has_changed_brokers)

    def note(self, kind: int, message: Any, topics: Topics) -> None:
        """Add a record of type ``kind`` before the record is applied. ``topics``: all topics by id, before the record.

        A partition that it names may not exist: the record may still be rejected.
        """
        noted = _NOTED.get(kind)
        if noted is not None:
            noted(self, message, topics)
        elif kind in BROKER_RECORDS:
            self.has_changed_brokers = True

    def note_partition(self, topic_id: bytes, index: int) -> None:
        """Add a new partition."""
        if topic_id not in self.created:
            self.partitions.setdefault(topic_id, {})[index] = None
            self.grown[topic_id] = None

    def _topic(self, message: Any, topics: Topics) -> None:
        self.created[message.topic_id] = None

    def _partition(self, message: Any, topics: Topics) -> None:
        self.note_partition(message.topic_id, message.partition_id)

    def _partition_change(self, message: Any, topics: Topics) -> None:
        if message.topic_id not in self.created:
            self.partitions.setdefault(message.topic_id, {})[message.partition_id] = None

    def _clear_elr(self, message: Any, topics: Topics) -> None:
        for topic in topics.values():
            if message.topic_name in ("", topic.name) and topic.topic_id not in self.created:
                changed = {index: None for index, p in enumerate(topic.partitions) if p.elr or p.last_known_elr}
                if changed:
                    self.partitions.setdefault(topic.topic_id, {}).update(changed)

    def _remove_topic(self, message: Any, topics: Topics) -> None:
        topic = topics.get(message.topic_id)
        if topic is not None:
            self.created.pop(topic.topic_id, None)
            self.partitions.pop(topic.topic_id, None)
            self.grown.pop(topic.topic_id, None)
            self.deleted.append(topic)

    def _config(self, message: Any, topics: Topics) -> None:
        self.configs.setdefault((message.resource_type, message.resource_name), set()).add(message.name)

    def _feature(self, message: Any, topics: Topics) -> None:
        self.features[message.name] = None


_NOTED: dict[int, Callable[[MetadataDelta, Any, Topics], None]] = {
    topic_record.RECORD_TYPE: MetadataDelta._topic,
    partition_record.RECORD_TYPE: MetadataDelta._partition,
    PARTITION_CHANGE: MetadataDelta._partition_change,
    CLEAR_ELR: MetadataDelta._clear_elr,
    remove_topic_record.RECORD_TYPE: MetadataDelta._remove_topic,
    config_record.RECORD_TYPE: MetadataDelta._config,
    feature_level_record.RECORD_TYPE: MetadataDelta._feature,
}
