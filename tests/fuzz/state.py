"""The whole state of a broker as flat values, so that two states can be compared, and the part that a restart must restore."""

from __future__ import annotations

from functools import cache
from typing import Any

from ottla.broker.broker import BrokerServer
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.metadata.cluster import TOPIC_RESOURCE, ClusterState
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from ottla.storage.log import Log
from ottla.storage.producer_state import ProducerState

Key = tuple[Any, ...]
State = dict[Key, Any]
AT_REST = (ClassicGroupState.STABLE, ClassicGroupState.EMPTY)
COORDINATED = ("group", "consumer group", "streams group", "share group", "offsets", "pending", "transaction")
TIMES = ("deadline_ms", "deadlines_ms", "since_ms", "wake_ms", "due_ms")
METADATA = ("log", "__cluster_metadata", 0)


def logs(broker: BrokerServer) -> list[Log]:
    """Return every log of a broker, including that of the cluster metadata."""
    return [*(p.log for p in broker.partitions), broker.metadata.log.log]


def _offsets(log: Log) -> Key:
    return (log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset, log.leader_epoch, log.topic_id)


def _producers(known: ProducerState) -> Key:
    entries = tuple((e.producer_id, e.epoch, e.txn_first_offset, e.packed) for e in known.entries.values())
    return entries, tuple(known.open_txns.items())


@cache
def _fields_of_a_group() -> tuple[str, ...]:
    """Return the names of all fields of a classic group except deadlines."""
    return tuple(name for name in ClassicGroup.__struct_fields__ if not name.endswith(TIMES))


def _group(group: ClassicGroup) -> Key:
    return tuple(_frozen(getattr(group, name)) for name in _fields_of_a_group())


def _consumer_group(group: ConsumerGroup) -> Key:
    """Return the state of a consumer group. All of it is logged, except the order in which members joined."""
    epochs = (group.group_epoch, group.metadata_hash, group.assignment_epoch, group.assigned_ms)
    return *epochs, sorted(group.members.values(), key=lambda m: m.member_id), dict(group.targets)


def _streams_group(group: StreamsGroup) -> Key:
    """Return the logged state of a streams group. The order in which members joined is not logged."""
    members = sorted(group.members.values(), key=lambda m: m.member_id)
    return group.metadata, group.assignment_epoch, group.assigned_ms, group.topology, members, dict(group.targets)


def _streams_memory(group: StreamsGroup) -> Key:
    """Return the state of a streams group that is not logged, except timers and cached computations."""
    return dict(group.task_offsets), group.shutdown_member_id, group.endpoint_epoch, group.delayed_until_ms is None


def _share_group(group: ShareGroup) -> Key:
    """Return the state of a share group. All of it is logged, except the order in which members joined."""
    epochs = (group.group_epoch, group.metadata_hash, group.assignment_epoch, group.assigned_ms)
    return *epochs, sorted(group.members.values(), key=lambda m: m.member_id), dict(group.targets), group.states


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _frozen(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, set):
        return tuple(sorted(value))
    # A parked request is compared only by its presence.
    return "waits" if callable(value) else value


def live(broker: BrokerServer) -> State:
    """Return everything that a request may change, except deadlines, fetch sessions and counters."""
    out: State = {}
    cluster = broker.cluster.state
    for log in logs(broker):
        out["log", log.topic, log.partition] = (*_offsets(log), log.size_bytes, log.is_failed, log.config)
        if log.producers.entries:
            out["producers", log.topic, log.partition] = _producers(log.producers)
        if log.producers._unverified:
            refused = tuple((p, u.epoch, u.sequence) for p, u in log.producers._unverified.items())
            out["unverified", log.topic, log.partition] = refused
    out |= _cluster(cluster)
    out["producer ids",] = broker.producer_ids._block
    for shard in broker.groups.shards():
        for group in shard.groups.values():
            out["group", group.group_id] = _group(group)
        for consumer_group in shard.consumers.groups.values():
            out["consumer group", consumer_group.group_id] = _consumer_group(consumer_group)
        for streams_group in shard.streams.groups.values():
            out["streams group", streams_group.group_id] = (_streams_group(streams_group), _streams_memory(streams_group))
        for share_group in shard.shares.groups.values():
            out["share group", share_group.group_id] = _share_group(share_group)
        for group_id in shard.offsets.groups:
            out["offsets", group_id] = tuple(sorted(shard.offsets.of_group(group_id).items()))
        for producer_id, pending in shard.offsets.pending.items():
            out["pending", shard.partition, producer_id] = tuple(sorted(pending.items()))
    for transactions in broker.transactions.shards():
        for transactional_id, metadata in transactions.ids.items():
            out["transaction", transactional_id] = metadata
    for shares in broker.share_states.shards():
        out |= {("share", *key): (p.state, p.state_epoch, p.leader_epoch, p.updates) for key, p in shares.persisted.items()}
    return out


def _cluster(cluster: ClusterState) -> State:
    out: State = {("topic", name): (topic.topic_id, tuple(topic.partitions)) for name, topic in cluster.topics.items()}
    out |= {("configs", *resource): tuple(sorted(configs.items())) for resource, configs in cluster.configs.items() if configs}
    out["features",] = tuple(sorted(cluster.features.items()))
    return out


def _assigned(group: Any, member: Any) -> bytes:
    """Return the assignment of a member, which is stored in its group."""
    assignment: bytes = group.assignments.get(member.member_id, b"")
    return assignment


def _logs(broker: BrokerServer) -> State:
    out: State = {}
    for log in logs(broker):
        out["log", log.topic, log.partition] = (log.log_start_offset, log.log_end_offset, log.leader_epoch, log.topic_id)
        out["stable", log.topic, log.partition] = (log.high_watermark, log.last_stable_offset)
        for entry in log.producers.entries.values():
            # As in Kafka, a snapshot does not hold the timestamp of each batch.
            newest = entry.last_batch
            last = None if newest is None else (newest.last_sequence, newest.offset_delta, newest.last_offset)
            if log.log_start_offset > 0 and (newest is None or newest.last_offset < log.log_start_offset):
                # As in Kafka, a start after a crash does not read deleted records again.
                continue
            key = ("producer", log.topic, log.partition, entry.producer_id)
            # Compaction or DeleteRecords may have removed the marker that has the coordinator's epoch.
            known = -1 if log.config.is_compacted or log.log_start_offset > 0 else entry.coordinator_epoch
            out[key] = (entry.epoch, entry.txn_first_offset, known, last)
        out["open", log.topic, log.partition] = tuple(log.producers.open_txns.items())
    return out


def durable(broker: BrokerServer) -> State:
    """Return the state that a start on the same files must restore."""
    out = _logs(broker)
    cluster = broker.cluster.state
    out |= _cluster(cluster)
    out["next producer id",] = cluster.next_producer_id
    for shard in broker.groups.shards():
        for consumer_group in shard.consumers.groups.values():
            out["consumer group", consumer_group.group_id] = _consumer_group(consumer_group)
        for streams_group in shard.streams.groups.values():
            out["streams group", streams_group.group_id] = _streams_group(streams_group)
        for share_group in shard.shares.groups.values():
            out["share group", share_group.group_id] = _share_group(share_group)
        for group in shard.groups.values():
            if group.state is ClassicGroupState.STABLE:
                members = tuple(sorted((m.member_id, m.instance_id or "", _assigned(group, m)) for m in group.members.values()))
                out["group", group.group_id] = (group.generation, group.protocol, group.leader, members)
            elif group.state is ClassicGroupState.EMPTY and group.generation > 0:
                out["group", group.group_id] = (group.generation, None, None, ())
        for group_id in shard.offsets.groups:
            out["offsets", group_id] = tuple(sorted(shard.offsets.of_group(group_id).items()))
        for producer_id, pending in shard.offsets.pending.items():
            out["pending", shard.partition, producer_id] = tuple(sorted(pending.items()))
    for transactions in broker.transactions.shards():
        for transactional_id, metadata in transactions.ids.items():
            out["transaction", transactional_id] = metadata.logged()
    if not _is_taken_by_retention(cluster, SHARE_STATE_TOPIC):
        for shares in broker.share_states.shards():
            out |= {("share", *key): persisted.state for key, persisted in shares.persisted.items()}
    for topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
        if "compact" not in cluster.config_of(TOPIC_RESOURCE, topic).get("cleanup.policy", ""):
            # An admin client may have changed the topic's cleanup policy, so that retention removes records that the coordinators
            # need.
            out = {key: value for key, value in out.items() if key[0] not in COORDINATED}
    return out


def _is_taken_by_retention(cluster: ClusterState, topic: str) -> bool:
    """Whether a client set a topic's configs so that retention may remove needed records."""
    configs = cluster.config_of(TOPIC_RESOURCE, topic)
    return configs.get("retention.ms", "") != "-1" or configs.get("retention.bytes", "-1") != "-1"


def moving(broker: BrokerServer) -> set[Key]:
    """Return the keys of state that a start may restore differently.

    These are groups whose log holds an earlier state, and transactions whose completion a start resumes. A producer is included as
    well if DeleteRecords has removed the first records of its open transaction: that transaction then begins at the log's start,
    and after a crash at its first remaining record, as in Kafka.
    """
    keys: set[Key] = set()
    for log in logs(broker):
        where = (log.topic, log.partition)
        cut = [p for p, first in log.producers.open_txns.items() if first == log.log_start_offset > 0]
        if cut:
            keys |= {("stable", *where), ("open", *where), *(("producer", *where, p) for p in cut)}
    for shard in broker.groups.shards():
        keys |= {("group", g.group_id) for g in shard.groups.values() if g.state not in AT_REST}
    for transactions in broker.transactions.shards():
        for transactional_id, metadata in transactions.ids.items():
            if metadata.state not in PREPARED:
                continue
            keys |= {("transaction", transactional_id)}
            keys |= {(word, TRANSACTION_TOPIC, transactions.partition) for word in ("log", "stable")}
            for partition in metadata.partitions:
                keys |= {
                    ("log", *partition),
                    ("stable", *partition),
                    ("open", *partition),
                    ("producer", *partition, metadata.producer_id),
                }
            for shard in broker.groups.shards():
                key = ("pending", shard.partition, metadata.producer_id)
                keys |= {key, *(("offsets", group_id) for group_id, _, _ in shard.offsets.pending.get(metadata.producer_id, {}))}
    return keys


def difference(before: State, after: State) -> set[Key]:
    """Return the keys whose values differ between two states."""
    if before == after:
        return set()
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def diff_text(keys: set[Key], before: State, after: State, most: int = 6) -> str:
    lines = [f"  {key}: {str(before.get(key))[:300]} -> {str(after.get(key))[:300]}" for key in sorted(keys, key=str)[:most]]
    return "\n".join(lines + ([f"  and {len(keys) - most} more"] if len(keys) > most else []))
