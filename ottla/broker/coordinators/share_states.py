"""Runs the share coordinator: one shard for each partition of ``__share_group_state``."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from ottla.broker.config.settings import Settings
from ottla.broker.coordinators.shards import Opening, Shards, batch_bytes
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.broker.partitions.runtime import Replaying, Runtime
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.result import LogRecord, Result
from ottla.coordinator.share_state.records import ShareKey
from ottla.coordinator.share_state.requests import ShareStateConfig, StateRead, StateSummary, StateWrite
from ottla.coordinator.share_state.shard import ShareShard
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import SHARE_STATE_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.steps import Steps, next_turn
from ottla.protocol.uuids import uuid_text
from ottla.storage.log import Log

STATE_WORK = 60
"""Estimated time to initialise, write, read or delete the state of a share partition, excluding its batches, in units of 2 us."""
DELETED_STATES_RETRY_MS = 60_000
"""Interval in ms at which states of deleted topics are searched again, because the log may have refused their tombstones."""

log = structlog.get_logger("share_states")

KEYS_PER_STEP = 1_000
"""Number of share partitions that are searched for deleted topics in one step."""


class ShareStates:
    """The share coordinator of this broker, with its commands on share partitions. Each command is one synchronous call."""

    def __init__(
        self, kernel: Kernel, partitions: Partitions, cluster_state: ClusterState, delete_records: Callable[[Log, int], None]
    ) -> None:
        """``delete_records`` raises a log's start offset."""
        settings = kernel.config.settings
        self._env = kernel.env
        self._errors = RepeatedErrors(kernel.env, log)
        self._stepping = kernel.stepping
        self._partitions = partitions
        self._cluster_state = cluster_state
        self._delete_records = delete_records
        self._shards = Shards(SHARE_STATE_TOPIC, kernel, partitions, cluster_state, open=self._open)
        # Whether topics were deleted after the last run of `forget_topics` began, and whether `_forget_deleted_topics` is running.
        self._has_deleted_topics = self._is_forgetting = False
        self._config = ShareStateConfig(
            updates_per_snapshot=settings.share_coordinator_snapshot_update_records_per_snapshot,
            cold_snapshot_interval_ms=settings.share_coordinator_cold_partition_snapshot_interval_ms,
            max_state_batches=settings.group_share_max_partition_max_record_locks,
        )

    def _open(self, partition: Partition, leader_epoch: int) -> Opening[ShareShard]:
        shard = ShareShard(partition.log.partition, self._config, self._has_partition)

        def replay(record: LogRecord, offset: int, producer_id: int) -> None:
            shard.replay(record, offset)

        runtime = Runtime(self._env, partition, replay, self._stepping)
        return Opening(shard=shard, runtime=runtime, replaying=Replaying(start_over=shard.clear))

    # leader elections

    def elected(self, index: int, leader_epoch: int) -> None:
        """Load partition ``index`` of ``__share_group_state``, which this broker now leads."""
        self._shards.elected(index, leader_epoch)

    def resigned(self, index: int) -> None:
        """Drop the shard of a partition that another broker now leads."""
        self._shards.resigned(index)

    def _has_partition(self, topic_id: bytes, partition: int) -> bool:
        topic = self._cluster_state.topics_by_id.get(topic_id)
        return topic is not None and partition < topic.partition_count

    def partition_of(self, key: ShareKey) -> int:
        """The partition of ``__share_group_state`` for a share partition. Raises NOT_COORDINATOR while the topic does not exist."""
        count = self._shards.partition_count("This is not the correct coordinator.")
        return partition_for(f"{key.group_id}:{uuid_text(key.topic_id)}:{key.partition}", count)

    def shards(self) -> list[ShareShard]:
        return self._shards.shards()

    def _shard(self, key: ShareKey) -> tuple[ShareShard, Runtime]:
        return self._shards.get(self.partition_of(key))

    # commands on share states

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        shard, runtime = self._shard(key)
        runtime.execute(shard.initialize(key, state_epoch, start_offset, self._env.now_ms()))

    def read(self, key: ShareKey, leader_epoch: int) -> StateRead:
        shard, runtime = self._shard(key)
        return runtime.execute(shard.read(key, leader_epoch, self._env.now_ms()))

    def write(self, key: ShareKey, write: StateWrite) -> None:
        shard, runtime = self._shard(key)
        runtime.execute(shard.write(key, write, self._env.now_ms()))

    def read_summary(self, key: ShareKey) -> StateSummary:
        return self._shard(key)[0].read_summary(key)

    def batch_count(self, key: ShareKey) -> int:
        """The number of state batches of a share partition; 0 if its share coordinator is not available."""
        try:
            return self._shard(key)[0].batch_count(key)
        except KafkaError:
            return 0

    def delete(self, key: ShareKey) -> None:
        shard, runtime = self._shard(key)
        runtime.execute(shard.delete(key))

    # deleted topics and periodic tasks

    def topic_deleted(self, topic: str) -> None:
        """Remove the states of a deleted topic. Deleting ``__share_group_state`` itself removes all states."""
        if topic == SHARE_STATE_TOPIC:
            self._shards.topic_deleted()
        elif self._shards.items():
            self._has_deleted_topics = True
            if not self._is_forgetting:
                self._is_forgetting = True
                self._stepping.run(self._forget_deleted_topics())

    async def _forget_deleted_topics(self) -> None:
        """Run `forget_topics`, and repeat it if a topic was deleted during the run."""
        try:
            while self._has_deleted_topics:
                self._has_deleted_topics = False
                await self.forget_topics()
        finally:
            self._is_forgetting = False

    def begin_housekeeping(self, repeat: Callable[[str, Callable[[Settings], int], Callable[[], Steps[None]]], object]) -> None:
        """Start the periodic tasks. ``repeat`` is `Housekeeping.repeat`."""
        repeat("share_states_of_deleted_topics", lambda _: DELETED_STATES_RETRY_MS, self.forget_topics)
        repeat("share_snapshots", lambda s: s.share_coordinator_cold_partition_snapshot_interval_ms, self.snapshot_cold)
        repeat("share_pruning", lambda s: s.share_coordinator_state_topic_prune_interval_ms, self.delete_what_is_not_needed)

    async def forget_topics(self) -> None:
        """Write tombstones for the share partitions of deleted topics. The next run retries tombstones that the log refused."""
        with self._errors.round("deleted topics"):
            for shard, runtime in self._shards.items():
                known, gone = self._cluster_state.topics_by_id, set[bytes]()
                keys = list(shard.persisted)
                for start in range(0, len(keys), KEYS_PER_STEP):
                    gone |= {key.topic_id for key in keys[start : start + KEYS_PER_STEP] if key.topic_id not in known}
                    await next_turn()
                if gone:
                    for tombstones in shard.forget_topics(gone, batch_bytes(runtime)):
                        self._execute(shard, runtime, tombstones, "deleted topics")
                        await next_turn()

    async def snapshot_cold(self) -> None:
        """Write new snapshots of states that have not changed for long. The records before these snapshots can then be deleted."""
        now_ms = self._env.now_ms()
        with self._errors.round("snapshots"):
            for shard, runtime in self._shards.items():
                for snapshots in shard.cold_snapshots(now_ms, batch_bytes(runtime)):
                    self._execute(shard, runtime, snapshots, "snapshots")
                    await next_turn()

    async def delete_what_is_not_needed(self) -> None:
        """Raise the start offset of each log to the first record that any share partition's state still needs."""
        with self._errors.round("pruning"):
            for shard, runtime in self._shards.items():
                offset, partition_log = shard.first_needed_offset(), runtime.partition.log
                if self._shards.serves(shard) and offset is not None and offset > partition_log.log_start_offset:
                    try:
                        self._delete_records(partition_log, offset)
                    except KafkaError as error:
                        self._refused("share_states_not_pruned", "pruning", shard, error)
                await next_turn()

    def _execute(self, shard: ShareShard, runtime: Runtime, result: Result[None], key: str) -> None:
        if not self._shards.serves(shard):
            return
        try:
            runtime.execute(result)
        except KafkaError as error:
            self._refused("share_states_not_written", key, shard, error)

    def _refused(self, event: str, key: str, shard: ShareShard, error: KafkaError) -> None:
        """Log refused records of a periodic task in one line for all partitions, with the first error."""
        self._errors.failed(event, error.code.name, key=key, partition=shard.partition, error=str(error))
