"""The group coordinator at work: shards on the partitions of ``__consumer_offsets``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from broker.runtime import Runtime
from coordinator.cluster import OFFSETS_TOPIC
from coordinator.group.records import OFFSET_KEY_VERSIONS
from coordinator.group.requests import GroupConfig
from coordinator.group.shard import GroupShard
from coordinator.result import LogRecord, partition_for
from protocol.errors import KafkaError
from protocol.records import EndTxnMarker
from storage.checkpoints import topic_id_text
from storage.steps import Steps

if TYPE_CHECKING:
    from broker.broker import Broker

GROUPS_AT_ONCE = 200

log = structlog.get_logger("groups")


class Groups:
    """Shards by group id."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._shards: dict[int, tuple[GroupShard, Runtime]] = {}
        settings = broker.settings
        self.config = GroupConfig(
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            max_size=settings.group_max_size,
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
            offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        )

    def load(self) -> None:
        topic = self._broker.cluster.state.topics.get(OFFSETS_TOPIC)
        for index in range(topic.partition_count if topic is not None else 0):
            if self._broker.partitions.get(OFFSETS_TOPIC, index).log.log_end_offset:
                # One whose log goes offline by it was logged, and is refused to whoever asks for it.
                with suppress(KafkaError):
                    self._open(index)

    def _open(self, index: int) -> tuple[GroupShard, Runtime]:
        env = self._broker.env
        shard = GroupShard(index, self.config, lambda: topic_id_text(env.random_uuid()))

        def replay(record: LogRecord, offset: int, producer_id: int) -> None:
            shard.replay(record, offset, producer_id, env.steady_ms())

        runtime = Runtime(env, self._broker.partitions.get(OFFSETS_TOPIC, index), replay)
        runtime.load(
            lambda producer_id, commit: shard.replay_marker(producer_id, commit=commit),
            replaced=OFFSET_KEY_VERSIONS,
            start_over=shard.clear,
        )
        self._shards[index] = (shard, runtime)
        return shard, runtime

    def unload(self, topic: str) -> None:
        """The internal topic is gone, and all that it held."""
        if topic == OFFSETS_TOPIC:
            self._shards.clear()

    def partition_of(self, group_id: str) -> int:
        topic = self._broker.cluster.ensure_internal(OFFSETS_TOPIC)
        return partition_for(group_id, topic.partition_count)

    def shard(self, group_id: str) -> tuple[GroupShard, Runtime]:
        index = self.partition_of(group_id)
        return self._shards.get(index) or self._open(index)

    def shards(self) -> list[GroupShard]:
        return [shard for shard, _ in self._shards.values()]

    def append_marker(self, index: int, marker: EndTxnMarker, transaction_version: int) -> None:
        """The marker into the log, then the pending offsets, in one stretch (MRK-08)."""
        shard, runtime = self._shards.get(index) or self._open(index)
        runtime.partition.append_marker(marker, transaction_version)
        shard.replay_marker(marker.producer_id, commit=marker.commit)

    def topics_deleted(self, topics: set[str]) -> None:
        """Forget their offsets. The topics are gone already: what a shard cannot log now it keeps until the offsets expire."""
        for shard, runtime in self._shards.values():
            try:
                runtime.execute(shard.forget_topics(topics))
            except KafkaError as error:
                log.warning("offsets_not_forgotten", partition=shard.partition, topics=sorted(topics), error=str(error))

    # time

    def tick(self) -> None:
        now_ms = self._broker.env.steady_ms()
        for shard, runtime in self._shards.values():
            runtime.execute(shard.membership.tick(now_ms))

    def expire_offsets(self) -> Steps[None]:
        now_ms = self._broker.env.steady_ms()
        for shard, runtime in list(self._shards.values()):
            for tombstones in shard.expire_offsets(now_ms, GROUPS_AT_ONCE):
                runtime.execute(tombstones)
                yield None
