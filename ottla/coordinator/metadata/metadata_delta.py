"""What a run of metadata records has changed, for those who keep something in line with the cluster's metadata (MetadataDelta).

It names what has changed; how that is now stands in `ClusterState`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.coordinator.metadata.topics import Topic
from ottla.protocol.messages import config_record, feature_level_record, partition_record, remove_topic_record, topic_record

PARTITION_CHANGE, CLEAR_ELR = 5, 28
BROKER_RECORDS = frozenset({0, 1, 7, 8, 17})
"""The types of the records that register a broker, remove one, or change whether it is fenced, going, or where its directories are.
By number, because the start of a cluster of one broker does without their modules."""

Topics = Mapping[bytes, Topic]


class MetadataDelta:
    """What has changed since this object was made. Each thing is named once, in the order of its first change."""

    __slots__ = ("configs", "created", "deleted", "features", "grown", "has_changed_brokers", "partitions")

    def __init__(self) -> None:
        self.created: dict[bytes, None] = {}
        """The ids of new topics that are still there."""
        self.deleted: list[Topic] = []
        """Topics as they were when they were deleted."""
        self.partitions: dict[bytes, dict[int, None]] = {}
        """New and changed partitions of other topics than new ones, by topic id."""
        self.grown: dict[bytes, None] = {}
        """Those of `partitions` that have new ones."""
        self.configs: dict[tuple[int, str], None] = {}
        """The type and name of each resource with other configs."""
        self.features: dict[str, None] = {}
        self.has_changed_brokers = False

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.deleted or self.partitions or self.configs or self.features or self.has_changed_brokers)

    def note(self, kind: int, message: Any, topics: Topics) -> None:
        """Note a record of type ``kind`` that is about to be applied; ``topics`` are those before it, by id.

        A record that does not fit is refused afterwards. So a partition that is named here may not exist.
        """
        noted = _NOTED.get(kind)
        if noted is not None:
            noted(self, message, topics)
        elif kind in BROKER_RECORDS:
            self.has_changed_brokers = True

    def note_partition(self, topic_id: bytes, index: int) -> None:
        """Note a record that makes a partition."""
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
        self.configs[message.resource_type, message.resource_name] = None

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
