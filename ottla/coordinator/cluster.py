"""Cluster metadata: topics, configs, feature levels, registrations and producer-id blocks, in KRaft's record schemas.

Replayed from ``__cluster_metadata-0`` (org.apache.kafka.controller ReplicationControlManager and friends).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ottla.coordinator.broker_registration import UNKNOWN_OFFSET, Registrations
from ottla.coordinator.client_quotas import ClientQuotas
from ottla.coordinator.metadata_records import FRAME_VERSION, metadata_record, record_version
from ottla.coordinator.partition_registration import PartitionRegistration, merged, registered, sole_replica
from ottla.coordinator.result import LogRecord, Result
from ottla.coordinator.scram_credentials import ScramCredentials
from ottla.coordinator.topic_names import check_creatable, check_topic_name
from ottla.protocol.codec import decode_body
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC
from ottla.protocol.messages import (
    abort_transaction_record,
    access_control_entry_record,
    begin_transaction_record,
    broker_registration_change_record,
    clear_elr_record,
    client_quota_record,
    config_record,
    delegation_token_record,
    end_transaction_record,
    feature_level_record,
    fence_broker_record,
    no_op_record,
    partition_change_record,
    partition_record,
    producer_ids_record,
    register_broker_record,
    register_controller_record,
    remove_access_control_entry_record,
    remove_delegation_token_record,
    remove_topic_record,
    remove_user_scram_credential_record,
    topic_record,
    unfence_broker_record,
    unregister_broker_record,
    unregister_controller_record,
    user_scram_credential_record,
    zk_migration_state_record,
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
MAX_KEPT = 10_000
"""How many groups may have configs, and how many subscriptions to client metrics there may be. The limit is needed because a client
may set configs for names of groups and subscriptions that do not exist."""
MAX_KEPT_CHARACTERS = 10_000_000
"""The size in characters of the names and configs of all groups together, and of all subscriptions together. A single name may have
32,767 characters."""
MAX_PARTITIONS_PER_TOPIC = 10_000
NEWEST_METADATA_VERSION = 33
"""The level 4.4-IV2 of ``metadata.version``."""
REGISTRATIONS_SHARED = 1_000
"""How many different registrations of partitions are remembered, so that equal ones are one object."""

_FIRST_PARTITION = bytes(4)


class Topic(msgspec.Struct):
    """One topic and its partitions, by number."""

    name: str
    topic_id: bytes
    partitions: list[PartitionRegistration] = msgspec.field(default_factory=list)

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


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
    partition: PartitionRegistration


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
        self.registrations = Registrations()
        self.next_producer_id = 0
        self._alike: _Alike | None = None
        self._shared: dict[PartitionRegistration, PartitionRegistration] = {}
        self._in_transaction: list[tuple[LogRecord, int]] | None = None
        """The records of a transaction in the metadata log that has not ended (KIP-868), and their offsets."""

    # commands

    def create_topic(
        self,
        name: str,
        topic_id: bytes,
        partition_count: int,
        configs: Mapping[str, str],
        placed: Sequence[PartitionRegistration] | None = None,
    ) -> Result[Topic]:
        """Raises TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST or INVALID_PARTITIONS.

        ``placed``: the partitions as they were placed on brokers. Without it this broker is the only replica of each.
        """
        self.check_new_topic(name)
        self.check_partitions(partition_count)
        partitions = [sole_replica(self.node_id)] * partition_count if placed is None else list(placed)
        records = [metadata_record(topic_record, topic_record.TopicRecord(name=name, topic_id=topic_id))]
        records += self._new_partitions(topic_id, 0, partitions)
        records += [self._config(TOPIC_RESOURCE, name, key, value) for key, value in configs.items()]
        return Result(Topic(name, topic_id, partitions), records)

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

    def create_partitions(self, name: str, count: int, placed: Sequence[PartitionRegistration] | None = None) -> Result[None]:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, INVALID_PARTITIONS or POLICY_VIOLATION. ``placed``: see
        `create_topic`; the new partitions alone."""
        topic = self.check_more_partitions(name, count)
        partitions = [sole_replica(self.node_id)] * (count - topic.partition_count) if placed is None else placed
        return Result(None, self._new_partitions(topic.topic_id, topic.partition_count, partitions))

    def check_more_partitions(self, name: str, count: int) -> Topic:
        """Raises the errors of `create_partitions` for a number of partitions that the topic may not have."""
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
        self.check_partitions(count)
        return topic

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
        records += self.registrations.snapshot(self.metadata_version)
        version = record_version(partition_record, self.metadata_version)
        for topic in self.topics.values():
            records.append(metadata_record(topic_record, topic_record.TopicRecord(name=topic.name, topic_id=topic.topic_id)))
            records += [p.to_record(topic.topic_id, index, version) for index, p in enumerate(topic.partitions)]
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

    @property
    def metadata_version(self) -> int:
        """The finalized level of ``metadata.version``; that of `NEWEST_METADATA_VERSION` where the log has none yet."""
        return self.features.get("metadata.version", NEWEST_METADATA_VERSION)

    def config_of(self, resource_type: int, name: str) -> dict[str, str]:
        return self.configs.get((resource_type, name), {})

    # replay

    def replay(self, record: LogRecord, offset: int = UNKNOWN_OFFSET) -> None:
        """Apply one record. Raises DecodeError, with nothing changed, for an unknown kind of record or one that does not fit."""
        raw = record.value or b""
        alike = self._alike
        if alike is not None and raw[alike[0] + 4 :] == alike[2] and raw[: alike[0]] == alike[1]:
            at, _, _, topic_id, partition = alike
            topic, index = self.topics_by_id.get(topic_id), int.from_bytes(raw[at : at + 4], "big", signed=True)
            if topic is not None and index == len(topic.partitions):
                topic.partitions.append(partition)
            else:
                self._set_partition(topic_id, index, partition)
            return
        try:
            frame, pos = read_uvarint(raw, 0)
            kind, pos = read_uvarint(raw, pos)
            version, pos = read_uvarint(raw, pos)
        except IndexError as error:
            raise DecodeError("no metadata record") from error
        known = _REPLAY.get(kind)
        if frame != FRAME_VERSION or (known is None and kind not in _SKIPPED):
            raise DecodeError(f"metadata record of type {kind}, frame version {frame}")
        if known is None:
            return
        module, take = known
        if self._in_transaction is not None and kind not in _TRANSACTION_ENDS:
            self._in_transaction.append((record, offset))
            return
        message = decode_body(module.decode, raw, pos, version)
        take(self, message, offset)
        if kind == partition_record.RECORD_TYPE:
            self._alike = _Alike(
                at=pos,
                head=raw[:pos],
                tail=raw[pos + 4 :],
                topic_id=message.topic_id,
                partition=self.topics_by_id[message.topic_id].partitions[message.partition_id],
            )

    def _replay_begin(self, message: Any, offset: int) -> None:
        self._in_transaction, self._alike = [], None

    def _replay_abort(self, message: Any, offset: int) -> None:
        if self._in_transaction is None:
            raise DecodeError("a record that aborts a transaction which has not begun")
        self._in_transaction = None

    def _replay_end(self, message: Any, offset: int) -> None:
        if self._in_transaction is None:
            raise DecodeError("a record that ends a transaction which has not begun")
        records, self._in_transaction = self._in_transaction, None
        errors = []
        for record, its_offset in records:
            try:
                self.replay(record, its_offset)
            except DecodeError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _replay_topic(self, message: Any, offset: int) -> None:
        topic = Topic(message.name, message.topic_id)
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic
        self._topics_by_folded_name[self._folded(topic.name)] = topic.name

    def _replay_partition(self, message: Any, offset: int) -> None:
        self._set_partition(message.topic_id, message.partition_id, registered(message))

    def _replay_partition_change(self, message: Any, offset: int) -> None:
        topic, index = self.topics_by_id.get(message.topic_id), message.partition_id
        if topic is None or not 0 <= index < topic.partition_count:
            raise DecodeError(f"a change of partition {index} of a topic that does not have it")
        topic.partitions[index] = self._sharing(merged(topic.partitions[index], message))

    def _replay_clear_elr(self, message: Any, offset: int) -> None:
        topics = [self.topics.get(message.topic_name)] if message.topic_name else self.topics.values()
        cleared = partition_change_record.PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
        for topic in topics:
            if topic is None:
                raise DecodeError(f"a record that clears eligible leaders of topic {message.topic_name}, which is not there")
            for index, partition in enumerate(topic.partitions):
                if partition.elr or partition.last_known_elr:
                    topic.partitions[index] = self._sharing(merged(partition, cleared))

    def _set_partition(self, topic_id: bytes, index: int, partition: PartitionRegistration) -> None:
        topic = self.topics_by_id.get(topic_id)
        partitions = () if topic is None else topic.partitions
        if topic is None or not 0 <= index <= len(partitions):
            raise DecodeError(f"a record of partition {index} of a topic that does not have it")
        partition = self._sharing(partition)
        if index == len(topic.partitions):
            topic.partitions.append(partition)
        else:
            topic.partitions[index] = partition

    def _sharing(self, partition: PartitionRegistration) -> PartitionRegistration:
        """An equal registration that other partitions have already, so that equal ones take memory once; else ``partition``."""
        if len(self._shared) >= REGISTRATIONS_SHARED:
            self._shared.clear()
        return self._shared.setdefault(partition, partition)

    def _replay_remove_topic(self, message: Any, offset: int) -> None:
        topic = self.topics_by_id.pop(message.topic_id, None)
        if topic is None:
            raise DecodeError("a record that removes a topic which is not there")
        del self.topics[topic.name]
        if self._topics_by_folded_name.get(self._folded(topic.name)) == topic.name:
            del self._topics_by_folded_name[self._folded(topic.name)]
        configs = self.configs.pop((TOPIC_RESOURCE, topic.name), {})
        self._count_configs(TOPIC_RESOURCE, -bool(configs), -characters_of(topic.name, configs))

    def _replay_config(self, message: Any, offset: int) -> None:
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

    def _replay_feature(self, message: Any, offset: int) -> None:
        self.features[message.name] = message.feature_level

    def _replay_producer_ids(self, message: Any, offset: int) -> None:
        self.next_producer_id = message.next_producer_id

    # records

    @staticmethod
    def check_partitions(count: int) -> None:
        if count <= 0:
            raise KafkaError(Code.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
        if count > MAX_PARTITIONS_PER_TOPIC:
            raise KafkaError(Code.POLICY_VIOLATION, "Excessively large number of partitions per request.")

    def _new_partitions(self, topic_id: bytes, first: int, partitions: Sequence[PartitionRegistration]) -> list[LogRecord]:
        """The records of new partitions. Equal ones differ only in the partition's number, so one record is encoded and copied."""
        version = record_version(partition_record, self.metadata_version)
        around: dict[PartitionRegistration, tuple[bytes, bytes]] = {}
        records = []
        last: PartitionRegistration | None = None
        head = tail = b""
        for index, partition in enumerate(partitions, first):
            if partition is not last:
                last = partition
                if partition not in around:
                    raw = partition.to_record(topic_id, 0, version).value or b""
                    at = raw.index(_FIRST_PARTITION + topic_id)
                    around[partition] = raw[:at], raw[at + len(_FIRST_PARTITION) :]
                head, tail = around[partition]
            records.append(LogRecord(None, head + index.to_bytes(4, "big") + tail))
        return records

    @staticmethod
    def _config(resource_type: int, resource: str, key: str, value: str | None) -> LogRecord:
        return metadata_record(
            config_record, config_record.ConfigRecord(resource_type=resource_type, resource_name=resource, name=key, value=value)
        )


_REPLAY: dict[int, tuple[Any, Callable[[ClusterState, Any, int], None]]] = {
    module.RECORD_TYPE: (module, take)
    for module, take in (
        (topic_record, ClusterState._replay_topic),
        (partition_record, ClusterState._replay_partition),
        (partition_change_record, ClusterState._replay_partition_change),
        (clear_elr_record, ClusterState._replay_clear_elr),
        (remove_topic_record, ClusterState._replay_remove_topic),
        (config_record, ClusterState._replay_config),
        (feature_level_record, ClusterState._replay_feature),
        (producer_ids_record, ClusterState._replay_producer_ids),
        (begin_transaction_record, ClusterState._replay_begin),
        (end_transaction_record, ClusterState._replay_end),
        (abort_transaction_record, ClusterState._replay_abort),
        (client_quota_record, lambda state, message, _: state.client_quotas.replay(message)),
        (user_scram_credential_record, lambda state, message, _: state.credentials.replay(message)),
        (remove_user_scram_credential_record, lambda state, message, _: state.credentials.replay_removal(message)),
        (register_broker_record, lambda state, message, offset: state.registrations.replay_broker(message, offset)),
        (unregister_broker_record, lambda state, message, _: state.registrations.replay_removal(message)),
        (fence_broker_record, lambda state, message, _: state.registrations.replay_fencing(message, is_fenced=True)),
        (unfence_broker_record, lambda state, message, _: state.registrations.replay_fencing(message, is_fenced=False)),
        (broker_registration_change_record, lambda state, message, _: state.registrations.replay_change(message)),
        (register_controller_record, lambda state, message, _: state.registrations.replay_controller(message)),
        (unregister_controller_record, lambda state, message, _: state.registrations.replay_controller_removal(message)),
    )
}
"""For each type of record, its generated module and the method that applies a record of the type."""

_TRANSACTION_ENDS = {end_transaction_record.RECORD_TYPE, abort_transaction_record.RECORD_TYPE}

_SKIPPED = {
    module.RECORD_TYPE
    for module in (
        no_op_record,  # It only moves the log's end on, as a sign that the controller lives.
        access_control_entry_record,  # There are no ACLs here.
        remove_access_control_entry_record,
        delegation_token_record,  # There are no delegation tokens here.
        remove_delegation_token_record,
        zk_migration_state_record,  # The migration from ZooKeeper has ended before there was ottla.
    )
}
"""Types of records that Apache Kafka's controllers write and that are passed over on purpose."""
