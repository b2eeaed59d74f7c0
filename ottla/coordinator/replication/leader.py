"""A leader's view of its followers, and the decisions based on it (Partition and Replica of kafka.cluster).

The leader's own log is not part of this state: its end offset and high watermark are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import msgspec

from ottla.coordinator.replication.in_sync import InSync, committed
from ottla.protocol.errors import Code, KafkaError

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
"""The broker epoch of a follower that sends none, because it is older than KIP-903. This epoch is not compared."""
ACKS_ALL = -1

NO_FOLLOWERS: Mapping[int, Follower] = MappingProxyType({})

LiveEpoch = Callable[[int], int | None]
"""A function that returns the epoch of a broker that is registered and neither fenced nor shutting down, else None."""


class Follower(msgspec.Struct, kw_only=True):
    """A follower as seen in its fetches (Replica and ReplicaState of Kafka).

    ``end_offset`` is the offset of the last fetch: the follower has every record below it. ``leader_end_offset`` is the leader's
    log end offset at that fetch: if the next fetch starts there, the follower had caught up at the time of the last fetch.
    """

    end_offset: int = UNKNOWN_OFFSET
    start_offset: int = UNKNOWN_OFFSET
    leader_end_offset: int = UNKNOWN_OFFSET
    fetched_ms: int = 0
    caught_up_ms: int = 0
    broker_epoch: int | None = None

    def fetched(self, fetch_offset: int, start_offset: int, leader_end_offset: int, broker_epoch: int, now_ms: int) -> None:
        """Record a fetch in the current leader epoch."""
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.start_offset = start_offset
        self.end_offset = fetch_offset
        self.leader_end_offset = max(self.leader_end_offset, leader_end_offset)
        self.fetched_ms = max(self.fetched_ms, now_ms)
        self.broker_epoch = broker_epoch

    def has_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= max_lag_ms


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """The high watermark after a follower's fetch, and the change of the in-sync set to request from the controller."""

    high_watermark: int
    expansion: InSync | None = None


class Leader(msgspec.Struct, kw_only=True):
    """The replication state of a partition that this broker leads in one leader epoch.

    ``start_offset`` is the log end offset at the start of the epoch. A follower below ``start_offset`` may still have records of an
    earlier epoch that it must truncate.
    """

    broker_id: int
    leader_epoch: int
    start_offset: int
    in_sync: InSync
    followers: Mapping[int, Follower]
    max_lag_ms: int
    min_in_sync: int
    live_epoch: LiveEpoch
    is_sole: bool
    """Whether there is no other replica. If so, the high watermark is the log end offset."""

    # computing the high watermark

    def high_watermark(self, log_end_offset: int, high_watermark: int, now_ms: int) -> int:
        """Return the new high watermark, up to which all replicas of the maximal in-sync set have the log
        (Partition.maybeIncrementLeaderHW).

        A follower that may join the set holds the high watermark back as well. Otherwise the follower would never catch up with a
        partition under load. The high watermark never decreases, and it stays while fewer replicas than ``min.insync.replicas`` are
        in sync (KIP-966).
        """
        if self.is_under_min:
            return high_watermark
        reached = log_end_offset
        for broker_id, follower in self.followers.items():
            if follower.end_offset < reached and (
                broker_id in self.in_sync.maximal
                or (follower.has_caught_up(log_end_offset, now_ms, self.max_lag_ms) and self._is_eligible(broker_id, follower))
            ):
                reached = follower.end_offset
        return max(reached, high_watermark)

    @property
    def effective_min(self) -> int:
        """``min.insync.replicas``, at most the number of replicas."""
        return min(self.min_in_sync, len(self.followers) + 1)

    @property
    def is_under_min(self) -> bool:
        return len(self.in_sync.committed) < self.effective_min

    @property
    def is_at_min(self) -> bool:
        """Whether exactly the required number of replicas is in sync (Partition.isAtMinIsr)."""
        return len(self.in_sync.committed) == self.effective_min

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync.committed) < len(self.followers) + 1

    @property
    def low_watermark(self) -> int | None:
        """The lowest log start offset of the live followers, or None without live followers. DeleteRecords waits for it."""
        return min((f.start_offset for b, f in self.followers.items() if self.live_epoch(b) is not None), default=None)

    # handling followers' fetches

    def fetched(
        self,
        broker_id: int,
        *,
        fetch_offset: int,
        start_offset: int,
        broker_epoch: int,
        log_end_offset: int,
        high_watermark: int,
        now_ms: int,
    ) -> Fetched:
        """Record a follower's fetch. Raises NOT_LEADER_OR_FOLLOWER if a newer broker epoch is known (KIP-903)."""
        follower = self.follower(broker_id)
        current = self.live_epoch(broker_id)
        known = follower.broker_epoch
        newest = max(NO_BROKER_EPOCH if current is None else current, NO_BROKER_EPOCH if known is None else known)
        if NO_BROKER_EPOCH < broker_epoch < newest:
            raise KafkaError(
                Code.NOT_LEADER_OR_FOLLOWER, f"broker epoch {broker_epoch} of broker {broker_id} is older than {newest}"
            )
        assert fetch_offset <= log_end_offset, f"broker {broker_id} fetched at {fetch_offset}, the log ends at {log_end_offset}"
        follower.fetched(fetch_offset, start_offset, log_end_offset, broker_epoch, now_ms)
        expansion: InSync | None = None
        if self._may_join(broker_id, follower, high_watermark):
            expansion = self.in_sync = self.in_sync.with_replica(broker_id)
        return Fetched(high_watermark=self.high_watermark(log_end_offset, high_watermark, now_ms), expansion=expansion)

    def follower(self, broker_id: int) -> Follower:
        """Return a follower. Raises UNKNOWN_LEADER_EPOCH for an unknown replica, which may know newer metadata."""
        follower = self.followers.get(broker_id)
        if follower is None:
            raise KafkaError(Code.UNKNOWN_LEADER_EPOCH, f"broker {broker_id} is not a replica")
        return follower

    def _may_join(self, broker_id: int, follower: Follower, high_watermark: int) -> bool:
        return (
            not self.in_sync.is_in_flight
            and broker_id not in self.in_sync.committed
            and follower.end_offset >= max(high_watermark, self.start_offset)
            and self._is_eligible(broker_id, follower)
        )

    def _is_eligible(self, broker_id: int, follower: Follower) -> bool:
        """Whether the controller would accept a replica in the in-sync set (Partition.isReplicaIsrEligible).

        The broker must be live, and the last fetch must have had the broker's current epoch or, in older versions, no epoch.
        """
        current = self.live_epoch(broker_id)
        return current is not None and follower.broker_epoch in (NO_BROKER_EPOCH, current)

    # changing the in-sync set

    def shrink(self, log_end_offset: int, now_ms: int) -> InSync | None:
        """Return the change that removes replicas lagging longer than ``replica.lag.time.max.ms``, or None if no replica lags.

        Also None while a change is pending, because only one change may be pending.
        """
        if self.in_sync.is_in_flight:
            return None
        late = frozenset(
            broker_id
            for broker_id in self.in_sync.committed - {self.broker_id}
            if broker_id in self.followers and not self.followers[broker_id].has_caught_up(log_end_offset, now_ms, self.max_lag_ms)
        )
        if not late:
            return None
        self.in_sync = self.in_sync.without(late)
        return self.in_sync

    def broker_epochs(self, change: InSync) -> dict[int, int]:
        """Return the new in-sync set for AlterPartition 3: broker ids with broker epochs."""
        epochs = {}
        for broker_id in sorted(change.proposed):
            follower = self.followers.get(broker_id)
            known = follower.broker_epoch if follower is not None else self.live_epoch(broker_id)
            epochs[broker_id] = NO_BROKER_EPOCH if known is None else known
        return epochs

    def altered(self, change: InSync, in_sync: frozenset[int], leader_epoch: int, partition_epoch: int) -> bool:
        """Apply the controller's response to ``change``. Returns False if newer metadata arrived first."""
        if self.in_sync is not change or leader_epoch != self.leader_epoch or partition_epoch < change.partition_epoch:
            return False
        self.in_sync = change.now(in_sync, partition_epoch)
        return True

    def alter_refused(self, change: InSync, code: Code) -> bool:
        """Apply the controller's rejection of ``change``. Returns whether the same request must be retried."""
        if self.in_sync is not change:
            return False
        self.in_sync = change.refused(code)
        return self.in_sync is change

    def learned(self, in_sync: frozenset[int], partition_epoch: int) -> None:
        """Apply metadata of this leader epoch if it is newer than the known metadata (Partition.makeLeader)."""
        if partition_epoch > self.in_sync.partition_epoch:
            self.in_sync = self.in_sync.now(in_sync, partition_epoch)

    def assigned(self, replicas: Iterable[int]) -> None:
        """Apply a change of the partition's replicas without a new leader epoch, as in a reassignment."""
        self.followers = {r: self.followers.get(r) or Follower() for r in replicas if r != self.broker_id}
        self.is_sole = not self.followers

    # responding to producers

    def check_may_append(self, acks: int) -> None:
        """Raise NOT_ENOUGH_REPLICAS for acks=all if too few replicas are in sync."""
        if acks == ACKS_ALL and self.is_under_min:
            in_sync = len(self.in_sync.committed)
            raise KafkaError(Code.NOT_ENOUGH_REPLICAS, f"{in_sync} replicas are in sync, but {self.effective_min} are required")

    def answer_to(self, acks: int, end_offset: int, high_watermark: int) -> Code | None:
        """Return the error code for a producer whose batch ends before ``end_offset``, or None if it must wait.

        With acks 0 and 1 the leader's own log suffices (DelayedProduce, Partition.checkEnoughReplicasReachOffset).
        """
        if acks != ACKS_ALL:
            return Code.NONE
        if high_watermark < end_offset:
            return None
        return Code.NONE if len(self.in_sync.maximal) >= self.effective_min else Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def new_leader(
    *,
    broker_id: int,
    leader_epoch: int,
    start_offset: int,
    replicas: Iterable[int],
    in_sync: Iterable[int],
    partition_epoch: int,
    max_lag_ms: int,
    min_in_sync: int,
    live_epoch: LiveEpoch,
    now_ms: int,
) -> Leader:
    """Return the state at the start of a leader epoch. In-sync replicas have ``replica.lag.time.max.ms`` for their first fetch."""
    members = frozenset(in_sync)
    assert broker_id in members, f"leader {broker_id} is not in sync: {set(members)}"
    followers = {r: Follower(caught_up_ms=now_ms if r in members else 0) for r in replicas if r != broker_id}
    return Leader(
        broker_id=broker_id,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        in_sync=committed(members, partition_epoch),
        followers=followers,
        max_lag_ms=max_lag_ms,
        min_in_sync=min_in_sync,
        live_epoch=live_epoch,
        is_sole=not followers,
    )


def _always_live(_: int) -> int:
    return NO_BROKER_EPOCH


def sole_leader(broker_id: int, leader_epoch: int, start_offset: int) -> Leader:
    """Return the state of a partition without other replicas: there is no lag, and every record is committed at once."""
    return Leader(
        broker_id=broker_id,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        in_sync=committed(frozenset({broker_id}), 0),
        followers=NO_FOLLOWERS,
        max_lag_ms=0,
        min_in_sync=1,
        live_epoch=_always_live,
        is_sole=True,
    )


def check_leader_epoch(known: int, asked: int) -> None:
    """Raise FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH. Epoch -1 is not checked (Partition.checkCurrentLeaderEpoch)."""
    if asked >= 0 and asked != known:
        raise KafkaError(Code.FENCED_LEADER_EPOCH if asked < known else Code.UNKNOWN_LEADER_EPOCH)


class EpochEnd(msgspec.Struct, frozen=True):
    """A leader epoch and its end offset."""

    epoch: int
    end_offset: int


def divergence(last_epoch: int, fetch_offset: int, end: EpochEnd) -> EpochEnd | None:
    """Return the diverging epoch for a fetch response, or None if the leader's log includes the follower's (KIP-595).

    ``end`` is the highest epoch in the leader's log up to the follower's last epoch, with its end offset. Raises
    OFFSET_OUT_OF_RANGE if the leader's log has no such epoch (Partition.readRecords).
    """
    if end.epoch < 0:
        raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"leader epoch {last_epoch} is unknown")
    return None if end.epoch == last_epoch and fetch_offset <= end.end_offset else end
