"""Runs the group coordinator: one shard for each partition of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import structlog

from ottla.broker.config.groups import group_value, share_group_config, streams_group_config
from ottla.broker.coordinators.shards import Opening, Shards, batch_bytes
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.broker.partitions.runtime import Replaying, Runtime
from ottla.coordinator.group.assignors.named import ASSIGNORS
from ottla.coordinator.group.consumer.requests import ConsumerGroupConfig
from ottla.coordinator.group.member_ids import member_ids
from ottla.coordinator.group.records import OFFSET_KEY_VERSIONS
from ottla.coordinator.group.requests import GroupConfig, MigrationPolicy
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.group.share.requests import ShareGroupConfig
from ottla.coordinator.group.streams.requests import StreamsGroupConfig
from ottla.coordinator.invariants import check_groups
from ottla.coordinator.metadata.cluster import GROUP_RESOURCE, ClusterState
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.records import EndTxnMarker
from ottla.protocol.steps import next_turn

GROUPS_PER_STEP = 200
"""Number of groups that are searched for expired offsets in one step."""
OFFSETS_PER_STEP = 200
"""Maximum number of tombstones in one batch for a deleted topic's offsets."""
FORGET_STEPS_AT_ONCE = 3
"""Number of tombstone batches that are written immediately when a topic is deleted. Further batches follow in the background."""

log = structlog.get_logger("groups")


class DeletedTopic(NamedTuple):
    """A deleted topic whose committed offsets are still in a partition of ``__consumer_offsets``.

    Only offsets that were committed below ``before_offset`` in that partition belong to the deleted topic.
    """

    topic: str
    partition: int
    before_offset: int


class ClusterTopics(NamedTuple):
    """The cluster's topics, looked up by name or id for the group coordinator."""

    state: ClusterState

    def topic_id(self, name: str) -> bytes | None:
        topic = self.state.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self.state.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, name: str) -> int:
        topic = self.state.topics.get(name)
        return 0 if topic is None else topic.partition_count

    def topic_names(self) -> Collection[str]:
        return self.state.topics.keys()


class Groups:
    """The group coordinator of this broker: finds the shard of a group id, and runs the periodic tasks."""

    def __init__(self, kernel: Kernel, partitions: Partitions, cluster_state: ClusterState) -> None:
        settings = kernel.config.settings
        self._live_config = kernel.config
        self._env = kernel.env
        self._errors = RepeatedErrors(kernel.env, log)
        self._stepping = kernel.stepping
        self._partitions = partitions
        self._cluster_state = cluster_state
        self.topics = ClusterTopics(cluster_state)
        self._shards = Shards(OFFSETS_TOPIC, kernel, partitions, cluster_state, open=self._open, dropped=self._dropped)
        # The deleted topics that still have offsets, in the order of deletion.
        self._forgotten: dict[DeletedTopic, None] = {}
        # Whether share groups may still refer to deleted topics.
        self._has_share_states_to_forget = True
        self.config = GroupConfig(
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            max_size=settings.group_max_size,
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
            offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
            migration=MigrationPolicy(settings.group_consumer_migration_policy.lower()),
            consumer_of=self._consumer_config,
            streams_of=self._streams_config,
            share_of=self._share_config,
        )
        self._assignors = {name: ASSIGNORS[name] for name in settings.group_consumer_assignors}
        # Cached: the broker configuration, and its settings for consumer groups without configs of their own.
        self._plain_consumer_config = (kernel.config.current, self._made_consumer_config({}))
        self._offers_consumer = "consumer" in settings.group_coordinator_rebalance_protocols
        self._offers_streams = "streams" in settings.group_coordinator_rebalance_protocols

    def _consumer_config(self, group_id: str) -> ConsumerGroupConfig:
        own = self._cluster_state.config_of(GROUP_RESOURCE, group_id)
        if own:
            return self._made_consumer_config(own)
        current, config = self._plain_consumer_config
        if current is not self._live_config.current:
            config = self._made_consumer_config({})
            self._plain_consumer_config = (self._live_config.current, config)
        return config

    def _made_consumer_config(self, own: Mapping[str, str]) -> ConsumerGroupConfig:
        current = self._live_config.current

        def number(name: str) -> int:
            value = group_value(f"consumer.{name}", own, current)
            assert isinstance(value, int)
            return value

        return ConsumerGroupConfig(
            assignors=self._assignors,
            session_timeout_ms=number("session.timeout.ms"),
            heartbeat_interval_ms=number("heartbeat.interval.ms"),
            assignment_interval_ms=number("assignment.interval.ms"),
            max_size=current.settings.group_consumer_max_size,
        )

    def _open(self, partition: Partition, leader_epoch: int) -> Opening[GroupShard]:
        env = self._env
        shard = GroupShard(partition.log.partition, self.config, self.topics, member_ids(env.random_uuid))

        def replay(record: LogRecord, offset: int, producer_id: int) -> None:
            shard.replay(record, offset, producer_id, env.steady_ms())

        def check() -> None:
            check_groups(shard, partition.log.producers.open_txns)

        replaying = Replaying(
            on_marker=lambda producer_id, commit: shard.replay_marker(producer_id, commit=commit),
            replaced=OFFSET_KEY_VERSIONS,
            start_over=shard.clear,
        )
        runtime = Runtime(env, partition, replay, self._stepping, shard.apply, check)
        return Opening(shard=shard, runtime=runtime, replaying=replaying)

    # leader elections

    def elected(self, index: int, leader_epoch: int) -> None:
        """Load partition ``index`` of ``__consumer_offsets``, which this broker now leads."""
        self._shards.elected(index, leader_epoch)

    def resigned(self, index: int) -> None:
        """Drop the shard of a partition that another broker now leads. Members that wait for a rebalance get NOT_COORDINATOR."""
        self._shards.resigned(index)

    def _dropped(self, shard: GroupShard, runtime: Runtime) -> None:
        self._forgotten = {one: None for one in self._forgotten if one.partition != shard.partition}
        runtime.execute(Result(None, effects=shard.membership.dismissals()))

    # settings of groups

    @property
    def offers_consumer_protocol(self) -> bool:
        """Whether consumer groups (KIP-848) are enabled by both broker configuration and feature level."""
        return self._offers_consumer and self._cluster_state.features.get("group.version", 0) >= 1

    @property
    def offers_streams_protocol(self) -> bool:
        """Whether streams groups (KIP-1071) are enabled by both broker configuration and feature level."""
        return self._offers_streams and self._cluster_state.features.get("streams.version", 0) >= 1

    def _streams_config(self, group_id: str) -> StreamsGroupConfig:
        """The settings of a streams group. They are not cached, because clients may change configs at any time."""
        return streams_group_config(self._cluster_state.config_of(GROUP_RESOURCE, group_id), self._live_config.current)

    @property
    def offers_share_protocol(self) -> bool:
        """Whether the feature level enables share groups (KIP-932)."""
        return self._cluster_state.features.get("share.version", 0) >= 1

    def _share_config(self, group_id: str) -> ShareGroupConfig:
        return share_group_config(self._cluster_state.config_of(GROUP_RESOURCE, group_id), self._live_config.current)

    def topic_changed(self, topic: str) -> None:
        for shard in self.shards():
            shard.consumers.topic_changed(topic)
            shard.shares.topic_changed(topic)

    def topic_deleted(self, topic: str) -> None:
        """Remove the offsets of a deleted topic. Deleting ``__consumer_offsets`` itself removes all groups."""
        if topic == OFFSETS_TOPIC:
            self._shards.topic_deleted()
        self._forget_offsets_of(topic)
        self._has_share_states_to_forget = True

    def partition_of(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` for a group id. Raises NOT_COORDINATOR while the topic does not exist."""
        return partition_for(group_id, self._shards.partition_count())

    def expected_partition_of(self, group_id: str) -> int:
        """Like `partition_of`, but if ``__consumer_offsets`` does not exist, return the partition that the group will have."""
        topic = self._cluster_state.topics.get(OFFSETS_TOPIC)
        count = self._live_config.settings.offsets_topic_num_partitions if topic is None else topic.partition_count
        return partition_for(group_id, count)

    def shard(self, group_id: str) -> tuple[GroupShard, Runtime]:
        """Return the shard of a group, and its runtime. Raises NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS."""
        return self._shards.get(self.partition_of(group_id))

    def shards(self) -> list[GroupShard]:
        return self._shards.shards()

    @property
    def is_loading(self) -> bool:
        """Whether groups are being loaded. If so, a list of the groups would be incomplete."""
        return self._shards.is_loading

    def append_marker(self, index: int, marker: EndTxnMarker, transaction_version: int) -> None:
        """Append a marker, then commit or drop the transaction's pending offsets, with no other work in between (rule MRK-08,
        docs/rules.md).

        Raises NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and the errors of `Partition.append_marker`.
        """
        shard, runtime = self._shards.get(index)
        runtime.partition.append_marker(marker, transaction_version)
        shard.replay_marker(marker.producer_id, commit=marker.commit)

    # periodic tasks

    def tick(self) -> None:
        """Handle timeouts that are due. If the log refuses a group's record, the other groups are still handled."""
        self._shards.drop_offline()
        now_ms = self._env.steady_ms()
        for shard, runtime in self._shards.items():
            for group_id, result in shard.tick(now_ms, batch_bytes(runtime)):
                try:
                    runtime.execute(result)
                except KafkaError as error:
                    self._refused("group_change_postponed", "tick", error, group=group_id)

    async def expire_offsets(self) -> None:
        now_ms = self._env.steady_ms()
        with self._errors.round("expiry"):
            for shard, runtime in self._shards.items():
                for tombstones in shard.expire_offsets(now_ms, GROUPS_PER_STEP, batch_bytes(runtime)):
                    if not self._shards.serves(shard):
                        break
                    try:
                        runtime.execute(tombstones)
                    except KafkaError as error:
                        self._refused("offsets_not_expired", "expiry", error, partition=shard.partition)
                    await next_turn()
                await next_turn()

    def _refused(self, event: str, key: str, error: KafkaError, **fields: Any) -> None:
        """Log refused records of a periodic task in one line for all groups or partitions, with the first error."""
        self._errors.failed(event, error.code.name, key=key, error=str(error), **fields)

    # removing the offsets of deleted topics

    def _forget_offsets_of(self, topic: str) -> None:
        """Write tombstones for the offsets of a deleted topic: the first batches immediately, further batches in the background.

        Offsets that are committed later belong to a new topic of the same name, and are not deleted.
        """
        forgotten = [
            DeletedTopic(topic, shard.partition, runtime.partition.log.log_end_offset)
            for shard, runtime in self._shards.items()
            if shard.offsets.keys_of_topic(topic)
        ]
        self._forgotten |= dict.fromkeys(forgotten)
        steps = self._forget(forgotten)
        # If the topic has few offsets, all are deleted now. Then a client that recreates the topic at once reads no old offsets.
        try:
            for _ in range(FORGET_STEPS_AT_ONCE):
                steps.send(None)
        except StopIteration:
            return
        steps.close()

    async def forget_topics(self) -> None:
        """Remove the remaining offsets and share states of deleted topics. The next run retries tombstones that the log refused."""
        with self._errors.round("deleted topics"):
            await self._forget(list(self._forgotten))
        if self._has_share_states_to_forget:
            self._has_share_states_to_forget = False
            with self._errors.round("share states"):
                await self._forget_share_states()

    async def _forget_share_states(self) -> None:
        for shard, runtime in self._shards.items():
            for changed in shard.shares.forget_topics(batch_bytes(runtime)):
                if not self._shards.serves(shard):
                    break
                try:
                    runtime.execute(changed)
                except KafkaError as error:
                    self._has_share_states_to_forget = True
                    self._refused("share_states_not_deleted", "share states", error, partition=shard.partition)
                await next_turn()

    async def _forget(self, forgotten: list[DeletedTopic]) -> None:
        for one in forgotten:
            if one not in self._forgotten:
                # The shard was dropped since the last step. A shard that was loaded since may have other offsets.
                continue
            try:
                shard, runtime = self._shards.get(one.partition)
                for tombstones in shard.forget_topic(one.topic, one.before_offset, OFFSETS_PER_STEP, batch_bytes(runtime)):
                    if not self._shards.serves(shard):
                        break
                    runtime.execute(tombstones)
                    await next_turn()
            except KafkaError as error:
                self._refused("offsets_not_deleted", "deleted topics", error, topic=one.topic, partition=one.partition)
            else:
                self._forgotten.pop(one, None)
