"""The whole state of a broker as flat values, so that two moments can be compared, and what of it a restart must bring back."""

from __future__ import annotations

from typing import Any

from broker.broker import Broker
from coordinator.cluster import TRANSACTION_TOPIC
from coordinator.group.group import Group, GroupState
from coordinator.transaction.states import PREPARED
from storage.log import Log
from storage.producer_state import ProducerState

Key = tuple[Any, ...]
State = dict[Key, Any]
AT_REST = (GroupState.STABLE, GroupState.EMPTY)
METADATA = ("log", "__cluster_metadata", 0)


def logs(broker: Broker) -> list[Log]:
    """Every log of a broker, that of the cluster's metadata too."""
    return [*(p.log for p in broker.partitions), broker.cluster._runtime.partition.log]


def _offsets(log: Log) -> Key:
    return (log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset, log.leader_epoch, log.topic_id)


def _producers(known: ProducerState) -> Key:
    entries = tuple((e.producer_id, e.epoch, e.txn_first_offset, e.packed) for e in known.entries.values())
    return entries, tuple(known.open_txns.items())


def _group(group: Group) -> Key:
    members = []
    for m in group.members.values():
        who = (m.member_id, m.instance_id, m.client_id, m.protocol_type, tuple(m.protocols))
        members.append((*who, m.session_timeout_ms, m.rebalance_timeout_ms, m.assignment, m.is_waiting))
    chosen = (group.state, group.generation, group.protocol_type, group.protocol, group.leader)
    return *chosen, tuple(members), tuple(group.static_members.items()), tuple(group.pending), tuple(sorted(group.pending_sync))


def live(broker: Broker) -> State:
    """Everything that a request may change, but for deadlines, fetch sessions and counters."""
    out: State = {}
    cluster = broker.cluster.state
    for log in logs(broker):
        out["log", log.topic, log.partition] = (*_offsets(log), log.size_bytes, log.is_failed, log.config)
        if log.producers.entries:
            out["producers", log.topic, log.partition] = _producers(log.producers)
        if log.producers._unverified:
            refused = tuple((p, u.epoch, u.sequence) for p, u in log.producers._unverified.items())
            out["unverified", log.topic, log.partition] = refused
    for name, topic in cluster.topics.items():
        out["topic", name] = (topic.topic_id, tuple(topic.leader_epochs))
    for resource, configs in cluster.configs.items():
        if configs:
            out["configs", *resource] = tuple(sorted(configs.items()))
    out["features",] = tuple(sorted(cluster.features.items()))
    out["producer ids",] = broker.cluster._producer_ids
    for shard in broker.groups.shards():
        for group in shard.groups.values():
            out["group", group.group_id] = _group(group)
        for group_id in shard.offsets.groups:
            out["offsets", group_id] = tuple(sorted(shard.offsets.of_group(group_id).items()))
        for producer_id, pending in shard.offsets.pending.items():
            out["pending", shard.partition, producer_id] = tuple(sorted(pending.items()))
    for transactions in broker.transactions.shards():
        for transactional_id, metadata in transactions.ids.items():
            out["transaction", transactional_id] = metadata
    return out


def durable(broker: Broker) -> State:
    """What a start on the same files must bring back."""
    out: State = {}
    cluster = broker.cluster.state
    for log in logs(broker):
        out["log", log.topic, log.partition] = _offsets(log)
        for entry in log.producers.entries.values():
            # A snapshot holds the newest batch of a producer only, and not when it was last heard of, as in Kafka.
            newest = entry.last_batch
            last = None if newest is None else (newest.last_sequence, newest.offset_delta, newest.last_offset)
            if log.log_start_offset > 0 and (newest is None or newest.last_offset < log.log_start_offset):
                # What was deleted is not read again by a start after a crash, as in Kafka.
                continue
            key = ("producer", log.topic, log.partition, entry.producer_id)
            out[key] = (entry.epoch, entry.txn_first_offset, entry.coordinator_epoch, last)
        # A transaction whose records were deleted counts from the log's start, until a start after a crash.
        began = {p: first for p, first in log.producers.open_txns.items() if first > log.log_start_offset or first == 0}
        out["open", log.topic, log.partition] = tuple(began.items())
    for name, topic in cluster.topics.items():
        out["topic", name] = (topic.topic_id, tuple(topic.leader_epochs))
    for resource, configs in cluster.configs.items():
        if configs:
            out["configs", *resource] = tuple(sorted(configs.items()))
    out["features",] = tuple(sorted(cluster.features.items()))
    out["next producer id",] = cluster.next_producer_id
    for shard in broker.groups.shards():
        for group in shard.groups.values():
            if group.state is GroupState.STABLE:
                members = tuple(sorted((m.member_id, m.instance_id or "", m.assignment) for m in group.members.values()))
                out["group", group.group_id] = (group.generation, group.protocol, group.leader, members)
            elif group.state is GroupState.EMPTY and group.generation > 0:
                out["group", group.group_id] = (group.generation, None, None, ())
        for group_id in shard.offsets.groups:
            out["offsets", group_id] = tuple(sorted(shard.offsets.of_group(group_id).items()))
        for producer_id, pending in shard.offsets.pending.items():
            out["pending", shard.partition, producer_id] = tuple(sorted(pending.items()))
    for transactions in broker.transactions.shards():
        for transactional_id, metadata in transactions.ids.items():
            out["transaction", transactional_id] = metadata.logged()
    return out


def moving(broker: Broker) -> set[Key]:
    """What is on the way to another state: groups whose log has the one before, and transactions that a start takes up again."""
    found: set[Key] = set()
    for shard in broker.groups.shards():
        found |= {("group", g.group_id) for g in shard.groups.values() if g.state not in AT_REST}
    for transactions in broker.transactions.shards():
        for transactional_id, metadata in transactions.ids.items():
            if metadata.state not in PREPARED:
                continue
            found |= {("transaction", transactional_id), ("log", TRANSACTION_TOPIC, transactions.partition)}
            for partition in metadata.partitions:
                found |= {("log", *partition), ("open", *partition), ("producer", *partition, metadata.producer_id)}
            for shard in broker.groups.shards():
                key = ("pending", shard.partition, metadata.producer_id)
                found |= {key, *(("offsets", group_id) for group_id, _, _ in shard.offsets.pending.get(metadata.producer_id, {}))}
    return found


def difference(before: State, after: State) -> set[Key]:
    """Keys whose values differ."""
    if before == after:
        return set()
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def told(keys: set[Key], before: State, after: State, most: int = 6) -> str:
    """A difference for a person."""
    lines = [f"  {key}: {str(before.get(key))[:300]} -> {str(after.get(key))[:300]}" for key in sorted(keys, key=str)[:most]]
    return "\n".join(lines + ([f"  and {len(keys) - most} more"] if len(keys) > most else []))
