"""Cluster metadata: topics, configs, feature levels, registrations and producer-id blocks, in KRaft's record schemas.

The state is replayed from ``__cluster_metadata-0`` (ReplicationControlManager and related classes of org.apache.kafka.controller).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.coordinator.metadata import eligible_replicas
from ottla.coordinator.metadata.acls import Acls
from ottla.coordinator.metadata.broker_registration import UNKNOWN_OFFSET, Registrations
from ottla.coordinator.metadata.client_quotas import ClientQuotas
from ottla.coordinator.metadata.config_totals import ConfigTotals, characters_of
from ottla.coordinator.metadata.metadata_delta import MetadataDelta
from ottla.coordinator.metadata.metadata_records import FRAME_VERSION, SKIPPED, metadata_record, record_version
from ottla.coordinator.metadata.metadata_transaction import MetadataTransaction
from ottla.coordinator.metadata.partition_registration import (
    AlikePartition,
    PartitionRegistration,
    merged,
    registered,
    sole_replica,
)
from ottla.coordinator.metadata.scram_credentials import ScramCredentials
from ottla.coordinator.metadata.server_config import MIN_INSYNC_REPLICAS, ServerConfig, no_server
from ottla.coordinator.metadata.topic_names import TakenNames, check_creatable, check_topic_name
from ottla.coordinator.metadata.topics import SharedPartitions, Topic, check_partition_count, new_partition_records
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.codec import decode_body
from ottla.protocol.errors import Code, DecodeError, KafkaError
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

if TYPE_CHECKING:
    from ottla.coordinator.metadata.delegation_tokens import DelegationTokens

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
PRODUCER_ID_BLOCK = 1_000
LARGEST_ALLOTTED_PRODUCER_ID = 2**62
"""The highest producer id that counts as allocated by a controller. Clients may use higher ids, as in Kafka."""
NEWEST_METADATA_VERSION = 33
"""The newest level of ``metadata.version``: 4.4-IV2."""


def as_allotted(producer_id: int) -> int:
    """Return ``producer_id``, or -1 for an id that a client invented: allocation after such an id would run out of ids."""
    return producer_id if producer_id <= LARGEST_ALLOTTED_PRODUCER_ID else -1


class ClusterState:
    """The cluster's metadata. Unlike groups and transactions it has a single log and so a single shard."""

    def __init__(
        self, node_id: int, *, ignores_case: bool = False, is_member: bool = False, server_config: ServerConfig = no_server
    ) -> None:
        """``ignores_case``: whether the topics' file system ignores the case of names. ``is_member``: whether ``node_id`` is a
        broker with a remote controller. A controller uses ``server_config`` for topics that have no config of their own."""
        self.node_id = node_id
        self.is_member = is_member
        self._names = TakenNames(ignores_case=ignores_case)
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.config_totals: dict[int, ConfigTotals] = {}
        """The number and size of configs by resource type. A type is missing if no resource of the type has configs."""
        self.features: dict[str, int] = {}
        self.client_quotas = ClientQuotas()
        self.credentials = ScramCredentials()
        self._tokens: DelegationTokens | None = None
        self.acls = Acls()
        self.registrations = Registrations()
        self.next_producer_id = 0
        self.server_config = server_config
        self.delta: MetadataDelta | None = None
        """Collects the changes of a replay. None if they are not needed."""
        self._alike: AlikePartition | None = None
        self._shared = SharedPartitions()
        self._transaction = MetadataTransaction()

    @property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens. Their module is imported at the first use, because most clusters have none."""
        if self._tokens is None:
            self._tokens = import_module("ottla.coordinator.metadata.delegation_tokens").DelegationTokens()
        return self._tokens

    # deciding changes

    def create_topic(
        self,
        name: str,
        topic_id: bytes,
        partition_count: int,
        configs: Mapping[str, str],
        placed: Sequence[PartitionRegistration] | None = None,
    ) -> Result[Topic]:
        """Create a topic. ``placed``: the partitions with their replicas; by default this broker is the only replica of each.

        Raises TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST, INVALID_PARTITIONS or POLICY_VIOLATION.
        """
        self.check_new_topic(name)
        check_partition_count(partition_count)
        partitions = [sole_replica(self.node_id)] * partition_count if placed is None else list(placed)
        records = [metadata_record(topic_record, topic_record.TopicRecord(name=name, topic_id=topic_id))]
        records += new_partition_records(topic_id, 0, partitions, self.metadata_version)
        records += [self._config(TOPIC_RESOURCE, name, key, value) for key, value in configs.items()]
        return Result(Topic(name, topic_id, partitions), records)

    def check_new_topic(self, name: str) -> None:
        """Raise the errors of `create_topic` for a name that a new topic may not have."""
        check_creatable(name)
        check_topic_name(name)
        if name in self.topics:
            raise KafkaError(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        self._names.check(name)

    def create_partitions(self, name: str, count: int, placed: Sequence[PartitionRegistration] | None = None) -> Result[None]:
        """Add partitions. ``placed`` has only the new partitions (see `create_topic`). Raises UNKNOWN_TOPIC_OR_PARTITION,
        INVALID_REQUEST, INVALID_PARTITIONS or POLICY_VIOLATION."""
        topic = self.check_more_partitions(name, count)
        partitions = [sole_replica(self.node_id)] * (count - topic.partition_count) if placed is None else placed
        return Result(None, new_partition_records(topic.topic_id, topic.partition_count, partitions, self.metadata_version))

    def check_more_partitions(self, name: str, count: int) -> Topic:
        """Raise the errors of `create_partitions` for a number of partitions that the topic may not have."""
        topic = self.topic(name)
        if topic.is_internal:
            # If partitions of a coordinator's topic are added, Kafka loses the state of each group or transactional id whose hash
            # then maps to another partition. ottla refuses the request instead (rule CRD-16, docs/rules.md).
            raise KafkaError(Code.INVALID_REQUEST, f"the partition count of {name} cannot be changed: it maps ids to coordinators")
        if count == topic.partition_count:
            raise KafkaError(Code.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
        if count < topic.partition_count:
            raise KafkaError(
                Code.INVALID_PARTITIONS,
                f"The topic {name} currently has {topic.partition_count} partition(s); {count} would not be an increase.",
            )
        check_partition_count(count)
        return topic

    def delete_topic(self, name: str) -> Result[Topic]:
        topic = self.topic(name)
        record = metadata_record(remove_topic_record, remove_topic_record.RemoveTopicRecord(topic.topic_id))
        return Result(topic, [record])

    def set_configs(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> Result[None]:
        """Set or, with None, remove configs of one resource."""
        records = [self._config(resource_type, name, key, value) for key, value in changes.items()]
        if MIN_INSYNC_REPLICAS in changes and resource_type in (TOPIC_RESOURCE, BROKER_RESOURCE):
            records += eligible_replicas.cleared(self.topics, name if resource_type == TOPIC_RESOURCE else "")
        return Result(None, records)

    def set_features(self, levels: Mapping[str, int]) -> Result[None]:
        """Set the levels of features. Only features whose level changes get a record."""
        changed = {name: level for name, level in levels.items() if self.features.get(name) != level}
        message = feature_level_record.FeatureLevelRecord
        return Result(None, [metadata_record(feature_level_record, message(name, level)) for name, level in changed.items()])

    def allocate_producer_ids(self, at_least: int = 0) -> Result[tuple[int, int]]:
        """Return the next block of producer ids as (first, end), with no id below ``at_least``."""
        first = max(self.next_producer_id, at_least)
        end = first + PRODUCER_ID_BLOCK
        message = producer_ids_record.ProducerIdsRecord(broker_id=self.node_id, broker_epoch=0, next_producer_id=end)
        return Result((first, end), [metadata_record(producer_ids_record, message)])

    def snapshot(self, without_features: Collection[str] = ()) -> list[LogRecord]:
        """Return records that restore this state, in the order of KRaft's own snapshots."""
        levels = sorted((n, level) for n, level in self.features.items() if n not in without_features)
        feature = feature_level_record
        # metadata.version comes first, because it determines how the other records are decoded.
        levels.sort(key=lambda pair: pair[0] != "metadata.version")
        records = [metadata_record(feature, feature.FeatureLevelRecord(name=name, feature_level=level)) for name, level in levels]
        records += self.registrations.snapshot(self.metadata_version)
        version = record_version(partition_record, self.metadata_version)
        for topic in self.topics.values():
            records.append(metadata_record(topic_record, topic_record.TopicRecord(name=topic.name, topic_id=topic.topic_id)))
            records += [p.to_record(topic.topic_id, index, version) for index, p in enumerate(topic.partitions)]
        for (kind, name), configs in self.configs.items():
            records += [self._config(kind, name, key, value) for key, value in configs.items()]
        records += self.client_quotas.snapshot() + self.credentials.snapshot() + self.acls.snapshot()
        records += [] if self._tokens is None else self._tokens.snapshot()
        message = producer_ids_record.ProducerIdsRecord(
            broker_id=self.node_id, broker_epoch=0, next_producer_id=self.next_producer_id
        )
        return [*records, metadata_record(producer_ids_record, message)]

    # reading the state

    @property
    def is_alone(self) -> bool:
        """Whether the cluster is a single broker that is its own controller: it does not register, and leads all partitions.

        False for a broker with a remote controller, even if no broker is registered.
        """
        return not self.is_member and not self.registrations.brokers

    def topic(self, name: str) -> Topic:
        """Return the topic, or raise UNKNOWN_TOPIC_OR_PARTITION."""
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
        """The finalized level of ``metadata.version``, or `NEWEST_METADATA_VERSION` if the log has none yet."""
        return self.features.get("metadata.version", NEWEST_METADATA_VERSION)

    def config_of(self, resource_type: int, name: str) -> dict[str, str]:
        return self.configs.get((resource_type, name), {})

    # replaying records

    def replay(self, record: LogRecord, offset: int = UNKNOWN_OFFSET) -> None:
        """Apply one record. Raises DecodeError and changes nothing if the record has an unknown type or does not fit the state."""
        raw = record.value or b""
        alike = self._alike
        if alike is not None and raw[: alike[0]] == alike[1]:
            at, _, tail, topic_id, partition = alike
            is_of_topic = raw[at + 4 :] == tail
            if is_of_topic or raw[at + 20 :] == tail[16:]:
                topic_id = topic_id if is_of_topic else raw[at + 4 : at + 20]
                topic, index = self.topics_by_id.get(topic_id), int.from_bytes(raw[at : at + 4], "big", signed=True)
                if self.delta is not None:
                    self.delta.note_partition(topic_id, index)
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
            raise DecodeError("not a metadata record") from error
        known = _replayed(kind)
        if frame != FRAME_VERSION or (known is None and kind not in SKIPPED):
            raise DecodeError(f"unsupported metadata record of type {kind}, frame version {frame}")
        if known is None:
            return
        module, take = known
        if kind not in _TRANSACTION_ENDS and self._transaction.takes(record, offset):
            return
        message = decode_body(module.decode, raw, pos, version)
        if self.delta is not None:
            self.delta.note(kind, message, self.topics_by_id)
        take(self, message, offset)
        if kind == partition_record.RECORD_TYPE:
            self._alike = AlikePartition(
                at=pos,
                head=raw[:pos],
                tail=raw[pos + 4 :],
                topic_id=message.topic_id,
                partition=self.topics_by_id[message.topic_id].partitions[message.partition_id],
            )

    def _replay_begin(self, message: Any, offset: int) -> None:
        self._transaction.begin()
        # Clear the last partition record: `replay` applies an equal record at once, but records of a transaction wait for its end.
        self._alike = None

    def _replay_abort(self, message: Any, offset: int) -> None:
        self._transaction.end()

    def _replay_end(self, message: Any, offset: int) -> None:
        errors = []
        for record, its_offset in self._transaction.end():
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
        self._names.take(topic.name)

    def _replay_partition(self, message: Any, offset: int) -> None:
        self._set_partition(message.topic_id, message.partition_id, registered(message))

    def _replay_partition_change(self, message: Any, offset: int) -> None:
        topic, index = self.topics_by_id.get(message.topic_id), message.partition_id
        if topic is None or not 0 <= index < topic.partition_count:
            raise DecodeError(f"the record changes partition {index}, which does not exist")
        topic.partitions[index] = self._shared.of(merged(topic.partitions[index], message))

    def _replay_clear_elr(self, message: Any, offset: int) -> None:
        eligible_replicas.replay(self.topics, self._shared, message)

    def _set_partition(self, topic_id: bytes, index: int, partition: PartitionRegistration) -> None:
        topic = self.topics_by_id.get(topic_id)
        partitions = () if topic is None else topic.partitions
        if topic is None or not 0 <= index <= len(partitions):
            raise DecodeError(f"invalid record of partition {index}: its topic or the previous partition does not exist")
        partition = self._shared.of(partition)
        if index == len(topic.partitions):
            topic.partitions.append(partition)
        else:
            topic.partitions[index] = partition

    def _replay_remove_topic(self, message: Any, offset: int) -> None:
        topic = self.topics_by_id.pop(message.topic_id, None)
        if topic is None:
            raise DecodeError("the record removes a topic that does not exist")
        del self.topics[topic.name]
        self._names.free(topic.name)
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
            # Remove the empty entry, because clients may set and delete configs of any number of groups that do not exist.
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

    # building config records

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
        (remove_topic_record, ClusterState._replay_remove_topic),
        (config_record, ClusterState._replay_config),
        (feature_level_record, ClusterState._replay_feature),
        (producer_ids_record, ClusterState._replay_producer_ids),
        (client_quota_record, lambda state, message, _: state.client_quotas.replay(message)),
        (user_scram_credential_record, lambda state, message, _: state.credentials.replay(message)),
        (remove_user_scram_credential_record, lambda state, message, _: state.credentials.replay_removal(message)),
    )
}
"""Record type -> its generated module and the method that applies a record."""

_RARE: dict[int, tuple[str, Callable[[ClusterState, Any, int], None]]] = {
    0: ("register_broker_record", lambda state, message, offset: state.registrations.replay_broker(message, offset)),
    1: ("unregister_broker_record", lambda state, message, _: state.registrations.replay_removal(message)),
    5: ("partition_change_record", ClusterState._replay_partition_change),
    7: ("fence_broker_record", lambda state, message, _: state.registrations.replay_fencing(message, is_fenced=True)),
    8: ("unfence_broker_record", lambda state, message, _: state.registrations.replay_fencing(message, is_fenced=False)),
    10: ("delegation_token_record", lambda state, message, _: state.tokens.replay(message)),
    17: ("broker_registration_change_record", lambda state, message, _: state.registrations.replay_change(message)),
    18: ("access_control_entry_record", lambda state, message, _: state.acls.replay(message)),
    19: ("remove_access_control_entry_record", lambda state, message, _: state.acls.replay_removal(message)),
    23: ("begin_transaction_record", ClusterState._replay_begin),
    24: ("end_transaction_record", ClusterState._replay_end),
    25: ("abort_transaction_record", ClusterState._replay_abort),
    26: ("remove_delegation_token_record", lambda state, message, _: state.tokens.replay_removal(message)),
    27: ("register_controller_record", lambda state, message, _: state.registrations.replay_controller(message)),
    28: ("clear_elr_record", ClusterState._replay_clear_elr),
    29: ("unregister_controller_record", lambda state, message, _: state.registrations.replay_controller_removal(message)),
}
"""Like `_REPLAY`, with module names: a cluster of one broker has no records of these types, and starts without their modules."""

_TRANSACTION_ENDS = {24, 25}


def _replayed(kind: int) -> tuple[Any, Callable[[ClusterState, Any, int], None]] | None:
    known = _REPLAY.get(kind)
    if known is None and kind in _RARE:
        name, take = _RARE[kind]
        known = _REPLAY[kind] = (import_module(f"ottla.protocol.messages.{name}"), take)
    return known
