"""The group coordinator's calls to the share coordinator: initialise, delete and read states of share groups.

In Apache Kafka such calls are requests to another broker (Persister). In ottla both coordinators are in one process, so a call ends
before the group's response is sent. Each share partition needs an append, so a call for many partitions runs in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog

from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.share_states import STATE_WORK, ShareStates
from ottla.broker.loop.env import Clock
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.group.share.initialization import PartitionsByTopic
from ottla.coordinator.group.share.requests import Initialization
from ottla.coordinator.share_state.batches import NO_OFFSET
from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import SHARE_STATE_TOPIC
from ottla.protocol.java_hash import id_work
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.uuids import uuid_text

SUMMARY_WORK = 10
"""Estimated time to read the summary of one share partition's state, in units of 2 us."""

Refusals = Mapping[tuple[bytes, int], KafkaError]
"""The errors of share partitions, by topic id and partition."""

log = structlog.get_logger("share_groups")


class ShareOffset(NamedTuple):
    """The start offset of a share group in a partition. The defaults mean an unknown offset.

    ``lag`` is the number of records whose delivery to the group is not complete; -1 if unknown.
    """

    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    lag: int = -1


class ShareGroupStates:
    """The states of share groups in the share coordinator.

    ``fence`` is called with each share partition whose state was initialised or deleted (`SharePartitions.fence`).
    """

    def __init__(
        self,
        clock: Clock,
        groups: Groups,
        share_states: ShareStates,
        cluster: ClusterCommands,
        partitions: Partitions,
        fence: Callable[[ShareKey], None],
    ) -> None:
        self._errors = RepeatedErrors(clock, log)
        self._groups = groups
        self._share_states = share_states
        self._cluster = cluster
        self._partitions = partitions
        self._fence = fence

    async def initialize(self, asked: Initialization) -> Refusals:
        """Initialise states of share partitions, then record this in the group. Returns the errors.

        If one state is refused, the group records none as initialised, and a member's next heartbeat retries all.
        """
        refusals, pace = dict[tuple[bytes, int], KafkaError](), Pace(double_first=True)
        work = id_work(asked.group_id)
        for topic_id, offsets in asked.start_offsets.items():
            for partition, start_offset in offsets.items():
                if pace.spend(STATE_WORK + 2 * work):
                    await next_turn()
                key = ShareKey(asked.group_id, topic_id, partition)
                try:
                    if not self._groups.shard(asked.group_id)[0].shares.is_initializing(key.group_id, topic_id, partition):
                        # Skip a partition if the group, or its states of the topic, were deleted since the last step.
                        continue
                    self._cluster.ensure_coordinator(SHARE_STATE_TOPIC)
                    self._share_states.initialize(key, asked.state_epoch, start_offset)
                    self._fence(key)
                except KafkaError as error:
                    refusals[topic_id, partition] = error
        try:
            shard, runtime = self._groups.shard(asked.group_id)
            note = shard.shares.not_initialized if refusals else shard.shares.initialized
            runtime.execute(note(asked.group_id, asked.partitions()))
        except KafkaError as error:
            self._refused("share_state_metadata_not_written", asked.group_id, error)
        if refusals:
            self._refused("share_states_not_initialized", asked.group_id, next(iter(refusals.values())))
        return refusals

    def _refused(self, event: str, group_id: str, error: KafkaError) -> None:
        """Log the errors in one line for all groups, with the first error, because each heartbeat or fetch of a member repeats
        them."""
        self._errors.failed(event, error.code.name, group=group_id, error=str(error))

    def state_lost(self, key: ShareKey) -> None:
        """Have the group initialise a share partition again, because the share coordinator has lost the partition's state."""
        try:
            shard, runtime = self._groups.shard(key.group_id)
            result = shard.shares.state_lost(*key)
            if result.records:
                log.warning("share_state_lost", group_id=key.group_id, topic_id=uuid_text(key.topic_id), partition=key.partition)
            runtime.execute(result)
        except KafkaError as error:
            self._refused("share_state_metadata_not_written", key.group_id, error)

    async def delete(self, group_id: str, partitions: PartitionsByTopic) -> dict[bytes, KafkaError]:
        """Delete the states of a group's share partitions. Returns the first error of each topic, by topic id."""
        refusals, pace, work = dict[bytes, KafkaError](), Pace(double_first=True), id_work(group_id)
        for topic_id, numbers in partitions.items():
            for partition in sorted(numbers):
                if pace.spend(STATE_WORK + work):
                    await next_turn()
                key = ShareKey(group_id, topic_id, partition)
                try:
                    self._cluster.ensure_coordinator(SHARE_STATE_TOPIC)
                    self._share_states.delete(key)
                    self._fence(key)
                except KafkaError as error:
                    refusals.setdefault(topic_id, error)
        return refusals

    async def delete_all(self, group_id: str) -> None:
        """Delete all states of a group that is about to be deleted. Raises `KafkaError`."""
        shard, runtime = self._groups.shard(group_id)
        partitions = runtime.execute(shard.shares.delete_all_offsets(group_id))
        refusals = await self.delete(group_id, partitions)
        if refusals:
            raise next(iter(refusals.values()))

    def offset(self, key: ShareKey) -> ShareOffset:
        """The start offset of a group in a partition; unknown if the share coordinator cannot read it."""
        topic = self._cluster.state.topics_by_id.get(key.topic_id)
        try:
            self._cluster.ensure_coordinator(SHARE_STATE_TOPIC)
            summary = self._share_states.read_summary(key)
            partition = None if topic is None else self._partitions.get(topic.name, key.partition)
        except KafkaError:
            return ShareOffset()
        lag = -1
        if partition is not None and summary.start_offset != NO_OFFSET and summary.delivery_complete_count != -1:
            lag = partition.log.high_watermark - summary.start_offset - summary.delivery_complete_count
        return ShareOffset(summary.start_offset, summary.leader_epoch, lag)
