"""Cluster metadata: topics, configs, feature levels and producer-id blocks, in KRaft's record schemas.

Replayed from ``__cluster_metadata-0`` (org.apache.kafka.controller ReplicationControlManager and friends).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from ottla.coordinator.client_quotas import ClientQuotas
from ottla.coordinator.metadata_records import FRAME_VERSION, metadata_record
from ottla.coordinator.result import LogRecord, Result
from ottla.coordinator.scram_credentials import ScramCredentials
from ottla.protocol.codec import decode_body
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC
from ottla.protocol.messages import (
    client_quota_record,
    config_record,
    feature_level_record,
    partition_record,
    producer_ids_record,
    remove_topic_record,
    remove_user_scram_credential_record,
    topic_record,
    user_scram_credential_record,
)
from ottla.protocol.primitives import read_uvarint

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
PRODUCER_ID_BLOCK = 1_000
LARGEST_ALLOTTED_PRODUCER_ID = 2**62
"""The largest producer id that a controller is expected to allocate: it counts from 0 and never gets so far. Kafka also accepts
larger ids, which clients have made up."""
MAX_TOPIC_NAME = 249
MAX_KEPT = 10_000
"""How many groups may have configs, and how many subscriptions to client metrics there may be. The limit is needed because a client
may set configs for names of groups and subscriptions that do not exist."""
MAX_KEPT_CHARACTERS = 10_000_000
"""The size in characters of the names and configs of all groups together, and of all subscriptions together. A single name may have
32,767 characters."""
MAX_PARTITIONS_PER_TOPIC = 10_000

_FIRST_PARTITION = bytes(4)
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class Topic(msgspec.Struct):
    """One topic. ``leader_epochs`` has one entry for each partition."""

    name: str
    topic_id: bytes
    leader_epochs: list[int] = msgspec.field(default_factory=list)

    @property
    def partition_count(self) -> int:
        return len(self.leader_epochs)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION (org.apache.kafka.common.internals.Topic.validate)."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_TOPIC_NAME:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME}"
    elif not _LEGAL_NAME.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def check_creatable(name: str) -> None:
    """Raises INVALID_REQUEST for the name of the metadata log, which no client may create (ControllerApis)."""
    if name == METADATA_TOPIC:
        raise KafkaError(Code.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")


def characters_of(name: str, configs: Mapping[str, str]) -> int:
    """The number of characters in the name and the configs of a resource; 0 for a resource without configs."""
    return len(name) + sum(len(key) + len(value) for key, value in configs.items()) if configs else 0


class ConfigTotals(msgspec.Struct):
    """How many resources of one type have configs, and how many characters their names and configs have together."""

    resources: int = 0
    characters: int = 0


def as_allotted(producer_id: int) -> int:
    """``producer_id``; -1 for an id that a client has made up. Allocation must not continue behind such an id and run out."""
    return producer_id if producer_id <= LARGEST_ALLOTTED_PRODUCER_ID else -1


class _Alike(NamedTuple):
    """The partition record that was replayed last, split around the partition's number.

    The records of a topic's partitions differ in this number alone, and a topic may have 10,000 partitions. So a record that is
    otherwise equal is not decoded again. ``at`` is the position of the number; ``head`` and ``tail`` are the bytes around it.
    """

    at: int
    head: bytes
    tail: bytes
    topic_id: bytes
    leader_epoch: int


class ClusterState:
    """The cluster's metadata. Unlike groups and transactions it has a single log and so a single shard."""

    def __init__(self, node_id: int, *, ignores_case: bool = False) -> None:
        """``ignores_case``: whether the file system that holds the topics ignores the case of names."""
        self.node_id = node_id
        self._ignores_case = ignores_case
        self._topics_by_folded_name: dict[str, str] = {}
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.config_totals: dict[int, ConfigTotals] = {}
        """By type of resource. A type is missing where no resource of the type has configs."""
        self.features: dict[str, int] = {}
        self.client_quotas = ClientQuotas()
        self.credentials = ScramCredentials()
        self.next_producer_id = 0
        self._alike: _Alike | None = None

    # commands

    def create_topic(self, name: str, topic_id: bytes, partition_count: int, configs: Mapping[str, str]) -> Result[Topic]:
        """Raises TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST or INVALID_PARTITIONS."""
        self.check_new_topic(name)
        self._check_partitions(partition_count)
        records = [metadata_record(topic_record, topic_record.TopicRecord(name=name, topic_id=topic_id))]
        records += self._partitions(topic_id, range(partition_count))
        records += [self._config(TOPIC_RESOURCE, name, key, value) for key, value in configs.items()]
        return Result(Topic(name, topic_id, [0] * partition_count), records)

    def check_new_topic(self, name: str) -> None:
        """Raises the errors of `create_topic` for a name that a new topic may not have."""
        check_creatable(name)
        check_topic_name(name)
        if name in self.topics:
            raise KafkaError(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        self._check_collisions(name)

    def _check_collisions(self, name: str) -> None:
        """Raises INVALID_TOPIC_EXCEPTION for a name whose `_folded` text equals that of another topic or an internal topic."""
        if name in INTERNAL_TOPICS:
            # The broker needs its internal topics, whatever topics exist.
            return
        folded = self._folded(name)
        taken = {self._folded(own): own for own in INTERNAL_TOPICS}
        if self._ignores_case:
            taken[self._folded(METADATA_TOPIC)] = METADATA_TOPIC
        other = self._topics_by_folded_name.get(folded) or taken.get(folded)
        if other is not None:
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def _folded(self, name: str) -> str:
        """A text that is equal for two names that must not exist beside each other.

        Names of metrics have '_' in place of '.', so Kafka refuses a second topic whose metrics would have the same names. Where
        the file system ignores case, two topics whose names differ only in case would share their files.
        """
        folded = name.replace(".", "_")
        return folded.lower() if self._ignores_case else folded

    def create_partitions(self, name: str, count: int) -> Result[None]:
        topic = self.topic(name)
        if topic.is_internal:
            # Kafka allows it, and afterwards loses the ids whose hash leads to another partition (rule CRD-16, docs/rules.md).
            raise KafkaError(Code.INVALID_REQUEST, f"the partition count of {name} is fixed; ids are hashed by it")
        if count == topic.partition_count:
            raise KafkaError(Code.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
        if count < topic.partition_count:
            raise KafkaError(
                Code.INVALID_PARTITIONS,
                f"The topic {name} currently has {topic.partition_count} partition(s); {count} would not be an increase.",
            )
        self._check_partitions(count)
        return Result(None, self._partitions(topic.topic_id, range(topic.partition_count, count)))

    def delete_topic(self, name: str) -> Result[Topic]:
        topic = self.topic(name)
        record = metadata_record(remove_topic_record, remove_topic_record.RemoveTopicRecord(topic.topic_id))
        return Result(topic, [record])

    def set_configs(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> Result[None]:
        """Set or, with None, remove configs of one resource."""
        return Result(None, [self._config(resource_type, name, key, value) for key, value in changes.items()])

    def set_features(self, levels: Mapping[str, int]) -> Result[None]:
        """Set the levels of all features in ``levels``. Only features that have another level now get a record."""
        changed = {name: level for name, level in levels.items() if self.features.get(name) != level}
        message = feature_level_record.FeatureLevelRecord
        return Result(None, [metadata_record(feature_level_record, message(name, level)) for name, level in changed.items()])

    def allocate_producer_ids(self, at_least: int = 0) -> Result[tuple[int, int]]:
        """The next block of producer ids as (first, end), none of them below ``at_least``."""
        first = max(self.next_producer_id, at_least)
        end = first + PRODUCER_ID_BLOCK
        message = producer_ids_record.ProducerIdsRecord(broker_id=self.node_id, broker_epoch=0, next_producer_id=end)
        return Result((first, end), [metadata_record(producer_ids_record, message)])

    def snapshot(self, without_features: Collection[str] = ()) -> list[LogRecord]:
        """The records from which a replay makes this state again, in the order of KRaft's own snapshots."""
        levels = sorted((n, level) for n, level in self.features.items() if n not in without_features)
        feature = feature_level_record
        # metadata.version comes first, because it determines how the other records are read.
        levels.sort(key=lambda pair: pair[0] != "metadata.version")
        records = [metadata_record(feature, feature.FeatureLevelRecord(name=name, feature_level=level)) for name, level in levels]
        for topic in self.topics.values():
            records.append(metadata_record(topic_record, topic_record.TopicRecord(name=topic.name, topic_id=topic.topic_id)))
            records += [self._partition(topic.topic_id, index, epoch) for index, epoch in enumerate(topic.leader_epochs)]
        for (kind, name), configs in self.configs.items():
            records += [self._config(kind, name, key, value) for key, value in configs.items()]
        records += self.client_quotas.snapshot() + self.credentials.snapshot()
        message = producer_ids_record.ProducerIdsRecord(
            broker_id=self.node_id, broker_epoch=0, next_producer_id=self.next_producer_id
        )
        return [*records, metadata_record(producer_ids_record, message)]

    # look-ups

    def topic(self, name: str) -> Topic:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self.topics.get(name)
        if topic is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    @property
    def transaction_version(self) -> int:
        """The finalized level of ``transaction.version``."""
        return self.features.get("transaction.version", 0)

    def config_of(self, resource_type: int, name: str) -> dict[str, str]:
        return self.configs.get((resource_type, name), {})

    # replay

    def replay(self, record: LogRecord) -> None:
        """Apply one record. Raises DecodeError, with nothing changed, for an unknown kind of record or one that does not fit."""
        raw = record.value or b""
        alike = self._alike
        if alike is not None and raw[alike[0] + 4 :] == alike[2] and raw[: alike[0]] == alike[1]:
            at, _, _, topic_id, leader_epoch = alike
            topic, index = self.topics_by_id.get(topic_id), int.from_bytes(raw[at : at + 4], "big", signed=True)
            if topic is not None and index == len(topic.leader_epochs):
                topic.leader_epochs.append(leader_epoch)
            else:
                self._set_partition(topic_id, index, leader_epoch)
            return
        try:
            frame, pos = read_uvarint(raw, 0)
            kind, pos = read_uvarint(raw, pos)
            version, pos = read_uvarint(raw, pos)
        except IndexError as error:
            raise DecodeError("no metadata record") from error
        known = _REPLAY.get(kind)
        if known is None or frame != FRAME_VERSION:
            raise DecodeError(f"metadata record of type {kind}, frame version {frame}")
        module, take = known
        message = decode_body(module.decode, raw, pos, version)
        take(self, message)
        if kind == partition_record.RECORD_TYPE:
            self._alike = _Alike(
                at=pos, head=raw[:pos], tail=raw[pos + 4 :], topic_id=message.topic_id, leader_epoch=message.leader_epoch
            )

    def _replay_topic(self, message: Any) -> None:
        topic = Topic(message.name, message.topic_id)
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic
        self._topics_by_folded_name[self._folded(topic.name)] = topic.name

    def _replay_partition(self, message: Any) -> None:
        self._set_partition(message.topic_id, message.partition_id, message.leader_epoch)

    def _set_partition(self, topic_id: bytes, index: int, leader_epoch: int) -> None:
        topic = self.topics_by_id.get(topic_id)
        epochs = () if topic is None else topic.leader_epochs
        if topic is None or not 0 <= index <= len(epochs):
            raise DecodeError(f"a record of partition {index} of a topic that does not have it")
        if index == len(topic.leader_epochs):
            topic.leader_epochs.append(leader_epoch)
        else:
            topic.leader_epochs[index] = leader_epoch

    def _replay_remove_topic(self, message: Any) -> None:
        topic = self.topics_by_id.pop(message.topic_id, None)
        if topic is None:
            raise DecodeError("a record that removes a topic which is not there")
        del self.topics[topic.name]
        if self._topics_by_folded_name.get(self._folded(topic.name)) == topic.name:
            del self._topics_by_folded_name[self._folded(topic.name)]
        configs = self.configs.pop((TOPIC_RESOURCE, topic.name), {})
        self._count_configs(TOPIC_RESOURCE, -bool(configs), -characters_of(topic.name, configs))

    def _replay_config(self, message: Any) -> None:
        resource = (message.resource_type, message.resource_name)
        configs = self.configs.setdefault(resource, {})
        had_some, before = bool(configs), configs.pop(message.name, None)
        characters = 0 if before is None else -len(message.name) - len(before)
        if message.value is not None:
            configs[message.name] = message.value
            characters += len(message.name) + len(message.value)
        change = bool(configs) - had_some
        self._count_configs(message.resource_type, change, characters + change * len(message.resource_name))
        if not configs:
            # Remove the empty entry: clients may set and delete the configs of any number of groups that do not exist.
            del self.configs[resource]

    def _count_configs(self, resource_type: int, resources: int, characters: int) -> None:
        totals = self.config_totals.setdefault(resource_type, ConfigTotals())
        totals.resources += resources
        totals.characters += characters
        if not totals.resources:
            del self.config_totals[resource_type]

    def _replay_feature(self, message: Any) -> None:
        self.features[message.name] = message.feature_level

    def _replay_producer_ids(self, message: Any) -> None:
        self.next_producer_id = message.next_producer_id

    # records

    @staticmethod
    def _check_partitions(count: int) -> None:
        if count <= 0:
            raise KafkaError(Code.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
        if count > MAX_PARTITIONS_PER_TOPIC:
            raise KafkaError(Code.POLICY_VIOLATION, "Excessively large number of partitions per request.")

    def _partitions(self, topic_id: bytes, indexes: range) -> list[LogRecord]:
        """The records of new partitions. They differ only in the partition's number, so one record is encoded and copied."""
        raw = self._partition(topic_id, 0).value or b""
        at = raw.index(_FIRST_PARTITION + topic_id)
        head, tail = raw[:at], raw[at + len(_FIRST_PARTITION) :]
        return [LogRecord(None, head + index.to_bytes(4, "big") + tail) for index in indexes]

    def _partition(self, topic_id: bytes, index: int, leader_epoch: int = 0) -> LogRecord:
        node = [self.node_id]
        message = partition_record.PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=node,
            isr=node,
            leader=self.node_id,
            leader_epoch=leader_epoch,
            partition_epoch=0,
        )
        return metadata_record(partition_record, message)

    @staticmethod
    def _config(resource_type: int, resource: str, key: str, value: str | None) -> LogRecord:
        return metadata_record(
            config_record, config_record.ConfigRecord(resource_type=resource_type, resource_name=resource, name=key, value=value)
        )


_REPLAY: dict[int, tuple[Any, Callable[[ClusterState, Any], None]]] = {
    module.RECORD_TYPE: (module, take)
    for module, take in (
        (topic_record, ClusterState._replay_topic),
        (partition_record, ClusterState._replay_partition),
        (remove_topic_record, ClusterState._replay_remove_topic),
        (config_record, ClusterState._replay_config),
        (feature_level_record, ClusterState._replay_feature),
        (producer_ids_record, ClusterState._replay_producer_ids),
        (client_quota_record, lambda state, message: state.client_quotas.replay(message)),
        (user_scram_credential_record, lambda state, message: state.credentials.replay(message)),
        (remove_user_scram_credential_record, lambda state, message: state.credentials.replay_removal(message)),
    )
}
"""For each type of record, its generated module and the method that applies a record of the type."""
