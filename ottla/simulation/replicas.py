"""Checks invariants between the replicas of several brokers during a simulation: leaders, high watermarks, committed records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ottla.broker.broker import BrokerServer
from ottla.broker.partitions.partitions import Partition
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.records import BatchHeader, batches
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.committed_transactions import CommittedTransactions
from ottla.simulation.node import Node
from ottla.storage.log import Log
from ottla.storage.reading import read

PIECE_BYTES = 1 << 20

Committed = tuple[int, int, int]
"""Next offset, leader epoch and CRC of a batch."""
Seen = tuple[int, int, bool]
"""High watermark and leader epoch of a replica, and whether it leads."""


@dataclass(slots=True)
class _Partition:
    """Committed batches by base offset. The first high watermark above a batch commits it. ``leaders`` are broker ids by leader
    epoch.
    """

    batches: dict[int, Committed] = field(default_factory=dict)
    end: int = 0
    leaders: dict[int, int] = field(default_factory=dict)


class ReplicaChecker:
    """Checks the replicas of all partitions against these rules.

    A leader epoch has at most one leader, which has all committed records. High watermarks never decrease. Logs are equal below the
    high watermark. Committed records are on ``min.insync.replicas`` brokers. Each replica knows the leader epochs of its batches,
    and has the last stable offset that `CommittedTransactions` computes.
    """

    def __init__(
        self,
        finding: Callable[[str], None],
        reached: Counter[str],
        transactions: CommittedTransactions,
        in_sync: Callable[[TopicPartition], Sequence[int]],
    ) -> None:
        """``transactions`` gets each committed batch, in the order of its log. ``in_sync`` returns the ids of a partition's in-sync
        brokers, as the controller knows them."""
        self._finding = finding
        self._reached = reached
        self._transactions = transactions
        self._in_sync = in_sync
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._seen: dict[str, dict[Partition, Seen]] = {}
        self._nodes: list[Node[BrokerServer]] = []
        self._ends: dict[tuple[str, TopicPartition], int] = {}
        """Log end offset of each replica when its broker last went down."""

    def check(self, nodes: list[Node[BrokerServer]]) -> None:
        """Check all brokers whose code has run since the last check. The coordinators' logs come first, because markers in other
        logs must match the coordinators' decisions."""
        self._nodes = nodes
        worked = [node for node in nodes if node.has_worked and node.server is not None]
        for is_transactions in (True, False):
            for node in worked:
                node.has_worked = False
                assert node.server is not None
                for partition in node.server.partitions:
                    if (partition.log.topic == TRANSACTION_TOPIC) is is_transactions:
                        self._check(node, partition)
        self._transactions.check_completed()

    def crashed(self, node: Node[BrokerServer], nodes: list[Node[BrokerServer]]) -> None:
        """Check a broker one last time before it loses its memory. After its next start all of its replicas are checked again."""
        node.has_worked = True
        self.check(nodes)
        self._seen.pop(node.host, None)
        for partition in () if node.server is None else node.server.partitions:
            self._ends[node.host, (partition.log.topic, partition.log.partition)] = partition.log.log_end_offset

    def _check(self, node: Node[BrokerServer], partition: Partition) -> None:
        log = partition.log
        known = self._seen.setdefault(node.host, {})
        before, now = known.get(partition, (0, -1, False)), (log.high_watermark, log.leader_epoch, partition.is_led)
        if log.is_offline:
            return
        where = (log.topic, log.partition)
        state = self._partitions.setdefault(where, _Partition())
        if log.log_end_offset < state.end and node.node_id in self._in_sync(where):
            self._finding(f"{node.host} is in sync with {where} up to {log.log_end_offset}; {state.end} is committed")
        if before == now:
            return
        known[partition] = now
        if now[0] < before[0] and now[0] > log.log_start_offset:
            # A lower high watermark is correct if it is the log start offset: a log that restarts inside a batch begins with
            # the whole batch.
            self._finding(f"the high watermark of {where} on {node.host} goes back from {before[0]} to {now[0]}")
        if now[0] > before[0]:
            self._compare(node, log, state, before[0], now[0])
        if now[0] == state.end:
            stable = self._transactions.stable_offset(where, now[0], log.log_start_offset)
            if stable is not None and log.last_stable_offset != stable:
                self._finding(f"{node.host} has the last stable offset {log.last_stable_offset} of {where}; it is {stable}")
        if partition.is_led and now[1:] != before[1:]:
            self._elected(node, log, state)

    def _elected(self, node: Node[BrokerServer], log: Log, state: _Partition) -> None:
        where, epoch = (log.topic, log.partition), log.leader_epoch
        first = state.leaders.setdefault(epoch, node.node_id)
        if first != node.node_id:
            self._finding(f"brokers {first} and {node.node_id} both lead {where} in epoch {epoch}")
        if len(state.leaders) > 1:
            self._reached["another leader is elected"] += 1
            for other in self._nodes:
                replica = None if other is node or other.server is None else other.server.partitions.known(*where)
                if replica is not None and replica.is_led:
                    self._reached["a replaced leader does not know that it was replaced"] += 1
            if log.log_end_offset > state.end:
                self._reached["a leader is elected with records that were not committed"] += 1
            if log.high_watermark < state.end:
                self._reached["a new leader does not know its high watermark yet"] += 1
        if log.log_end_offset < state.end:
            self._finding(f"{node.host} leads {where} in epoch {epoch} up to {log.log_end_offset}; {state.end} was committed")
        self._compare(node, log, state, log.high_watermark, min(state.end, log.log_end_offset))

    def _compare(self, node: Node[BrokerServer], log: Log, state: _Partition, start: int, end: int) -> None:
        where, committed_before = (log.topic, log.partition), state.end
        for header, batch in _batches(log, max(start, log.log_start_offset), end):
            if not _knows_epoch(log, header):
                self._finding(f"{node.host} does not know leader epoch {header.leader_epoch} at {header.base_offset} of {where}")
            has = (header.next_offset, header.leader_epoch, header.crc)
            known = state.batches.get(header.base_offset)
            if header.base_offset >= state.end:
                if header.base_offset > state.end:
                    self._transactions.skipped(where)
                state.batches[header.base_offset] = has
                state.end = header.next_offset
                self._transactions.note(where, header, batch)
            elif known is not None and known != has:
                self._finding(
                    f"{node.host} has at {header.base_offset} of {where} a batch of epoch {has[1]} up to {has[0]}; committed was"
                    f" one of epoch {known[1]} up to {known[0]}"
                )
            elif known is None:
                self._finding(f"{node.host} has at {header.base_offset} of {where} a batch that was never committed")
        if state.end > committed_before:
            self._check_copies(node, log, where, state.end)

    def _check_copies(self, node: Node[BrokerServer], log: Log, where: TopicPartition, end: int) -> None:
        """Check that the broker whose high watermark rose, and enough other brokers, have the newly committed batches.

        If power may be cut, the other brokers must have the batches on their disks, because a follower fetches again only after a
        sync. The leader may sync later, because it sends no response before its sync.
        """
        wanted = min(log.config.min_insync_replicas, len(self._nodes))
        if node.loses_power:
            durable = [self._durable_end(one, where) for one in self._nodes if one is not node]
            if sum(one >= end for one in durable) < wanted - 1:
                self._finding(f"{where} is committed up to {end}, but the other brokers' disks have it up to {durable}")
        ends = [self._end(node, where) for node in self._nodes]
        have = sum(one >= end for one in ends)
        if have < wanted:
            self._finding(f"{where} is committed up to {end}, and ends at {ends}: {have} brokers have it, {wanted} are required")

    def _end(self, node: Node[BrokerServer], where: TopicPartition) -> int:
        replica = None if node.server is None else node.server.partitions.known(*where)
        return self._ends.get((node.host, where), 0) if replica is None else replica.log.log_end_offset

    def _durable_end(self, node: Node[BrokerServer], where: TopicPartition) -> int:
        """Return the lowest log end offset that a power cut may leave now. Only the last segment may be unsynced."""
        replica = None if node.server is None else node.server.partitions.known(*where)
        if replica is None or replica.log.is_offline or not replica.log.segments:
            return self._end(node, where)
        active = replica.log.active
        durable_bytes = active.size_bytes - node.disk.fs.unsynced_bytes(active.log.path)
        end = active.base_offset
        for position, header in active.headers(0):
            if position + header.size_bytes > durable_bytes:
                return end
            end = header.next_offset
        return replica.log.log_end_offset

    def differences(self, nodes: list[Node[BrokerServer]]) -> Iterator[str]:
        """Yield differences between replicas at the end of a simulation: each replica must have the whole log and know that it is
        committed.
        """
        for where, state in self._partitions.items():
            for node in nodes:
                replica = None if node.server is None else node.server.partitions.known(*where)
                if replica is not None and not replica.log.is_offline:
                    log = replica.log
                    if (log.high_watermark, log.log_end_offset) != (state.end, state.end):
                        ends = f"high watermark {log.high_watermark}, end {log.log_end_offset}"
                        yield f"stuck: {node.host} has {where} with {ends}; {state.end} is committed"


def _knows_epoch(log: Log, header: BatchHeader) -> bool:
    """Whether the log's leader epoch cache has the batch's epoch for its last offset."""
    epoch = -1
    for number, start_offset in log.epochs.entries:
        if start_offset >= header.next_offset:
            break
        epoch = number
    return epoch == header.leader_epoch


def _batches(log: Log, start: int, end: int) -> Iterator[tuple[BatchHeader, bytes]]:
    while start < end:
        piece = bytes(read(log, start, PIECE_BYTES, committed=False, to_end=True).data)
        for at, header in batches(piece):
            if header.base_offset >= end:
                return
            if at + header.size_bytes > len(piece):
                break
            yield header, piece[at : at + header.size_bytes]
            start = header.next_offset
        if not piece:
            return
