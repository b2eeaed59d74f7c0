"""Writes a dead letter for each record that a share group has given up (KIP-1191).

A dead letter is a record in the group's dead-letter topic. Its headers name the original record and the reason. If the group's
config says so, the dead letter also has the key and value of the original record. A topic accepts dead letters only if its name has
the prefix that the broker's configs require, and if its own configs allow them. If a dead letter cannot be written, the error is
logged and the original record is still archived (ShareGroupDLQStateManager).
"""

from __future__ import annotations

from typing import TypeAlias

from ottla.broker.config.groups import copies_dead_letters, dead_letter_topic
from ottla.broker.config.topics import effective, validate
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.loop.env import Env
from ottla.broker.metadata.cluster import PARTITIONS_AT_ONCE, ClusterCommands
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.coordinator.metadata.cluster import GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.share_state.changes import DeadLetters
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.record_stream import RecordStream
from ottla.protocol.records import BatchHeader, Record, batches, build_batch_within
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.reading import next_decoded
from ottla.storage.walk import DamagedBatch

COPIED_BYTES = 1 << 20
"""Upper bound, in bytes, on the keys and values copied in memory for one share partition. Larger records are not copied."""
COPYING_BYTES = 4 * COPIED_BYTES
"""Estimated memory, in bytes, for copying records besides inflating them: the batches read, the copies, and the built batch."""
COPYING_LIMIT_BYTES = 16 * COPIED_BYTES
"""Upper bound, in bytes, on the memory for copying for all share partitions together. Further share partitions wait for memory."""
COPY_WORK_BYTES_SHIFT = 11
"""Estimated time to decode records for copies, in units of 2 us: 1 per record, and 1 per 2 KiB."""
APPENDED_BYTES = 1 << 20
"""Upper bound, in bytes, on a batch with more than one dead letter."""
RECORDS_PER_STEP = 500
ENABLED = "errors.deadletterqueue.group.enable"
TOPIC_CONFIGS = {ENABLED: "true", "message.timestamp.type": "CreateTime"}
"""The configs of a dead-letter topic that the broker creates."""
HEADER_PREFIX = "__dlq.errors."

DeadLetter: TypeAlias = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Key, value and headers of a dead letter."""


class DeadLetterTopics:
    """Writes dead letters in steps. Copying records takes memory from the decompression budget of Produce requests."""

    def __init__(self, kernel: Kernel, cluster: ClusterCommands, partitions: Partitions, inflating: InflatingMemory) -> None:
        self._env = kernel.env
        self._live_config = kernel.config
        self._cluster = cluster
        self._partitions = partitions
        self._barrier = kernel.barrier
        self._inflating = inflating
        # The memory for copying is taken before the memory for inflating, and returned after it, so that share partitions never
        # wait for each other's memory.
        self._copying = InflatingMemory(COPYING_LIMIT_BYTES)

    async def write(self, group_id: str, source: Partition, letters: DeadLetters) -> None:
        """Write the dead letters for the records of ``letters``, and wait until they are as durable as ``ottla.durability``
        promises.

        Raises `KafkaError` if any dead letter cannot be written or may be lost.
        """
        own = self._cluster.state.config_of(GROUP_RESOURCE, group_id)
        name = dead_letter_topic(own, self._live_config.current)
        topic = self._checked(group_id, name)
        if topic is None:
            topic = await self._create(group_id, name)
        lossy_rounds = self._barrier.lossy_rounds
        target = (name, source.log.partition % topic.partition_count)
        writing = _Writing(self._env, self._partitions, target, letters, _headers(group_id, source, letters))
        if copies_dead_letters(own, self._live_config.current):
            await self._copying.take(COPYING_BYTES)
            try:
                await self._copy(source, letters, writing)
                await writing.write_before(letters.last_offset + 1)
            finally:
                self._copying.give(COPYING_BYTES)
        else:
            await writing.write_before(letters.last_offset + 1)
        is_durable = await self._barrier.durable_before_response()
        if not is_durable or self._barrier.lossy_rounds != lossy_rounds:
            # `durable_before_response` reports only the newest syncs. A higher `lossy_rounds` shows that an earlier sync failed.
            raise KafkaError(
                Code.KAFKA_STORAGE_ERROR, f"dead letters in {name} may be lost: a file could not be synced to the disk"
            )

    def _checked(self, group_id: str, name: str) -> Topic | None:
        """The dead-letter topic; None if it must be created. Raises INVALID_CONFIG with Kafka's message if it may not be used."""
        settings = self._live_config.settings
        prefix = settings.errors_deadletterqueue_topic_name_prefix
        topic = self._cluster.state.topics.get(name)
        context = f"share group: {group_id}, topic: {name}"
        if not name:
            reason = f"Configured DLQ topic name in share group: {group_id} is empty."
        elif name.startswith("__"):
            reason = f"Configured DLQ topic name in {context} cannot start with __."
        elif topic is not None and not self._allows(name):
            reason = f"DLQ is not enabled on configured DLQ topic for {context}."
        elif topic is None and not settings.errors_deadletterqueue_auto_create_topics_enable:
            reason = f"DLQ topic does not exist and auto create is disabled on cluster for {context}."
        elif not name.startswith(prefix):
            reason = f"Configured DLQ topic name does not comply with the DLQ topic prefix in {context}, prefix: {prefix}."
        else:
            return topic
        raise KafkaError(Code.INVALID_CONFIG, reason)

    def _allows(self, name: str) -> bool:
        text = effective(ENABLED, self._cluster.state.config_of(TOPIC_RESOURCE, name), self._live_config.current)
        return bool(validate(ENABLED, text or "false"))

    async def _create(self, group_id: str, name: str) -> Topic:
        count = self._live_config.settings.num_partitions
        try:
            if count <= PARTITIONS_AT_ONCE:
                return self._cluster.create_topic(name, count, TOPIC_CONFIGS)
            return await self._cluster.create_large_topic(name, count, TOPIC_CONFIGS)
        except KafkaError as error:
            topic = self._checked(group_id, name) if error.code is Code.TOPIC_ALREADY_EXISTS else None
            if topic is None:
                raise
            return topic

    async def _copy(self, source: Partition, letters: DeadLetters, writing: _Writing) -> None:
        """Read the original records, each batch once. Whenever enough copies are held in memory, write their dead letters.

        Unreadable batches and damaged bytes are skipped. Copying ends if the log is deleted or goes offline.
        """
        offset, pace = letters.first_offset, Pace()
        while offset <= letters.last_offset:
            try:
                # Skip original records that retention has deleted.
                offset = max(offset, source.log.log_start_offset)
                piece = source.read(offset, COPIED_BYTES, committed=False, min_one_batch=True)
            except DamagedBatch:
                # Skip the damaged offset: records after it are still copied.
                offset += 1
                await next_turn()
                continue
            except KafkaError:
                return
            before = offset
            for position, header in batches(piece.data):
                if header.base_offset > letters.last_offset:
                    return
                if not header.is_control and header.last_offset >= offset:
                    batch = memoryview(piece.data)[position : position + header.size_bytes]
                    await self._copy_batch(batch, header, letters, writing, pace)
                offset = max(offset, header.next_offset)
            if offset == before:
                return
            await next_turn()

    async def _copy_batch(
        self, batch: memoryview, header: BatchHeader, letters: DeadLetters, writing: _Writing, pace: Pace
    ) -> None:
        stream = RecordStream(batch, header)
        inflating_bytes = stream.memory_bytes
        if inflating_bytes:
            await self._inflating.take(inflating_bytes)
        try:
            while True:
                try:
                    records = await next_decoded(stream, header, COPIED_BYTES)
                except KafkaError:
                    return
                if not records or records[0].offset > letters.last_offset:
                    return
                is_stand_in = stream.large_bytes > COPIED_BYTES
                for record in () if is_stand_in else records:
                    if letters.first_offset <= record.offset <= letters.last_offset:
                        await writing.add_copy(record)
                size_bytes = sum(len(record.key or b"") + len(record.value or b"") for record in records)
                if pace.spend(len(records) + (size_bytes >> COPY_WORK_BYTES_SHIFT)):
                    await next_turn()
        finally:
            if inflating_bytes:
                self._inflating.give(inflating_bytes)


class _Writing:
    """Appends dead letters of one share partition in offset order, with the copies passed to `add_copy`."""

    __slots__ = ("_copies", "_env", "_headers", "_held_bytes", "_next_offset", "_partitions", "_target")

    def __init__(
        self, env: Env, partitions: Partitions, target: TopicPartition, letters: DeadLetters, headers: dict[str, bytes]
    ) -> None:
        self._env = env
        self._partitions = partitions
        self._target = target
        self._headers = headers
        self._next_offset = letters.first_offset
        self._copies: dict[int, Record] = {}
        self._held_bytes = 0

    async def add_copy(self, original: Record) -> None:
        """Hold an original record in memory until its dead letter is written. The caller passes originals in offset order."""
        if original.offset < self._next_offset:
            return
        size_bytes = len(original.key or b"") + len(original.value or b"")
        if self._held_bytes + size_bytes > COPIED_BYTES or original.offset - self._next_offset >= RECORDS_PER_STEP:
            await self.write_before(original.offset)
        self._copies[original.offset] = original
        self._held_bytes += size_bytes

    async def write_before(self, end_offset: int) -> None:
        """Append the dead letters for all records below ``end_offset``. Raises `KafkaError`."""
        while self._next_offset < end_offset:
            self._next_offset += self._append(min(end_offset, self._next_offset + RECORDS_PER_STEP))
            await next_turn()
        self._copies.clear()
        self._held_bytes = 0

    def _append(self, end_offset: int) -> int:
        target = self._partitions.get(*self._target)
        target.log.check_online()
        config, first_offset, now_ms = target.log.config, self._next_offset, self._env.now_ms()
        most_bytes = min(config.max_message_bytes, config.segment_bytes)
        letters = (self._letter(offset, self._copies.get(offset)) for offset in range(first_offset, end_offset))
        batch, count = build_batch_within(letters, now_ms, min(most_bytes, APPENDED_BYTES))
        if len(batch) > most_bytes:
            # The topic would refuse even a batch with the first dead letter alone, so write that dead letter without key and value.
            self._copies.pop(first_offset, None)
            batch, count = build_batch_within([self._letter(first_offset, None)], now_ms, most_bytes)
        if config.is_compacted and not all(self._has_key(offset) for offset in range(first_offset, first_offset + count)):
            raise KafkaError(Code.INVALID_RECORD, f"{self._target[0]} is compacted, and does not accept records without a key")
        target.append_own(batch)
        return count

    def _has_key(self, offset: int) -> bool:
        copy = self._copies.get(offset)
        return copy is not None and copy.key is not None

    def _letter(self, offset: int, copy: Record | None) -> DeadLetter:
        headers: list[tuple[str, bytes | None]] = [
            (HEADER_PREFIX + name, b"%d" % offset if name == "offset" else text) for name, text in self._headers.items()
        ]
        return (None, None, headers) if copy is None else (copy.key, copy.value, headers)


def _headers(group_id: str, source: Partition, letters: DeadLetters) -> dict[str, bytes]:
    """The headers that all dead letters share, in Kafka's order. `_letter` replaces ``offset`` by the record's own offset."""
    headers = {
        "topic": source.log.topic,
        "partition": str(source.log.partition),
        "offset": str(letters.first_offset),
        "group": group_id,
        "delivery.count": str(letters.delivery_count),
        "message": letters.reason,
    }
    return {name: text.encode() for name, text in headers.items()}
