"""Dead-letter topics of share groups (KIP-1191): what becomes of records that a group has given up.

Each gets a record in the group's dead-letter topic whose headers say which it was and why, and, where the group is set so, with its
key and value. A topic takes dead letters only if its name begins as the broker's configs say and its own configs allow it. Where it
cannot be written to, the log says so, and the records are done with all the same (ShareGroupDLQStateManager).
"""

from __future__ import annotations

from typing import TypeAlias

from ottla.broker.cluster import PARTITIONS_AT_ONCE, Cluster
from ottla.broker.config.groups import copies_dead_letters, dead_letter_topic
from ottla.broker.config.topics import effective, validate
from ottla.broker.env import Env
from ottla.broker.gate import Gate
from ottla.broker.live_config import LiveConfig
from ottla.broker.partitions import Partition, Partitions
from ottla.coordinator.cluster import GROUP_RESOURCE, TOPIC_RESOURCE, Topic
from ottla.coordinator.share.changes import DeadLetters
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import Record, batches, build_batch_within
from ottla.storage.names import TopicPartition
from ottla.storage.reading import records_of
from ottla.storage.steps import Pause, Steps

COPIED_BYTES = 1 << 20
"""How much of the original records is held at a time; of a larger one no copy is made."""
RECORDS_PER_STEP = 500
ENABLED = "errors.deadletterqueue.group.enable"
TOPIC_CONFIGS = {ENABLED: "true", "message.timestamp.type": "CreateTime"}
"""What a dead-letter topic is set to that the broker makes."""

DeadLetter: TypeAlias = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Key, value and headers."""


class DeadLetterTopics:
    """Writes dead letters, in steps."""

    def __init__(self, env: Env, live_config: LiveConfig, cluster: Cluster, partitions: Partitions, gate: Gate) -> None:
        self._env = env
        self._live_config = live_config
        self._cluster = cluster
        self._partitions = partitions
        self._gate = gate

    def write(self, group_id: str, source: Partition, letters: DeadLetters) -> Steps[None]:
        """They are as durable as was promised when it ends. Raises `KafkaError` where they, or some of them, cannot be written."""
        own = self._cluster.state.config_of(GROUP_RESOURCE, group_id)
        name = dead_letter_topic(own, self._live_config.current)
        topic = self._checked(group_id, name)
        if topic is None:
            topic = yield from self._create(name)
        is_copied = copies_dead_letters(own, self._live_config.current)
        target = (name, source.log.partition % topic.partition_count)
        offset = letters.first_offset
        while offset <= letters.last_offset:
            copies: dict[int, Record] = {}
            until = min(offset + RECORDS_PER_STEP - 1, letters.last_offset)
            if is_copied:
                copies, until = yield from self._originals(source, offset, until)
            while offset <= until:
                records = [_record(group_id, source, letters, at, copies.get(at)) for at in range(offset, until + 1)]
                offset += self._append(target, records)
                yield None
        written = Pause()
        self._gate.effect(written.end)
        yield written

    def _checked(self, group_id: str, name: str) -> Topic | None:
        """The topic; None where it is to be made. Raises INVALID_CONFIG, in Kafka's words."""
        settings = self._live_config.settings
        prefix = settings.errors_deadletterqueue_topic_name_prefix
        topic = self._cluster.state.topics.get(name)
        told = f"share group: {group_id}, topic: {name}"
        if not name:
            reason = f"Configured DLQ topic name in share group: {group_id} is empty."
        elif name.startswith("__"):
            reason = f"Configured DLQ topic name in {told} cannot start with __."
        elif topic is not None and not self._allows(name):
            reason = f"DLQ is not enabled on configured DLQ topic for {told}."
        elif topic is None and not settings.errors_deadletterqueue_auto_create_topics_enable:
            reason = f"DLQ topic does not exist and auto create is disabled on cluster for {told}."
        elif not name.startswith(prefix):
            reason = f"Configured DLQ topic name does not comply with the DLQ topic prefix in {told}, prefix: {prefix}."
        else:
            return topic
        raise KafkaError(Code.INVALID_CONFIG, reason)

    def _allows(self, name: str) -> bool:
        text = effective(ENABLED, self._cluster.state.config_of(TOPIC_RESOURCE, name), self._live_config.current)
        return bool(validate(ENABLED, text or "false"))

    def _create(self, name: str) -> Steps[Topic]:
        count = self._live_config.settings.num_partitions
        if count <= PARTITIONS_AT_ONCE:
            return self._cluster.create_topic(name, count, TOPIC_CONFIGS)
        return (yield from self._cluster.create_large_topic(name, count, TOPIC_CONFIGS))

    def _append(self, where: TopicPartition, records: list[DeadLetter]) -> int:
        """As many as one batch has room for; how many they are. Raises `KafkaError`."""
        target = self._partitions.get(*where)
        target.log.check_online()
        config = target.log.config
        size_bytes = min(config.max_message_bytes, config.segment_bytes)
        batch, count = build_batch_within(records, self._env.now_ms(), size_bytes)
        if len(batch) > size_bytes:
            # One alone is larger than the topic takes: it is told of without its copy.
            batch, count = build_batch_within([(None, None, records[0][2])], self._env.now_ms(), size_bytes)
        if config.is_compacted and any(key is None for key, _, _ in records[:count]):
            raise KafkaError(Code.INVALID_RECORD, f"{where[0]} is compacted, and takes no records without a key")
        target.append_own(batch)
        return count

    def _originals(self, source: Partition, first_offset: int, last_offset: int) -> Steps[tuple[dict[int, Record], int]]:
        """Records by offset, and up to which offset they were looked for; what cannot be read is told of without a copy."""
        copies: dict[int, Record] = {}
        held_bytes, offset, looked_at = 0, first_offset, 0
        try:
            while offset <= last_offset:
                piece = source.read(offset, COPIED_BYTES, committed=False, min_one_batch=True)
                before = offset
                for position, header in batches(piece.data):
                    batch = memoryview(piece.data)[position : position + header.size_bytes]
                    for record in () if header.is_control else records_of(batch, header):
                        looked_at += 1
                        if looked_at % RECORDS_PER_STEP == 0:
                            yield None
                        if record.offset < offset:
                            continue
                        if record.offset > last_offset:
                            return copies, last_offset
                        size_bytes = len(record.key or b"") + len(record.value or b"")
                        if size_bytes > COPIED_BYTES:
                            continue
                        if held_bytes + size_bytes > COPIED_BYTES:
                            return copies, record.offset - 1
                        copies[record.offset] = record
                        held_bytes += size_bytes
                    offset = max(offset, header.next_offset)
                if offset == before:
                    break
                yield None
        except KafkaError:
            # Deleted, damaged or gone with the log's start.
            pass
        return copies, last_offset


def _record(group_id: str, source: Partition, letters: DeadLetters, offset: int, copy: Record | None) -> DeadLetter:
    told = {
        "topic": source.log.topic,
        "partition": str(source.log.partition),
        "offset": str(offset),
        "group": group_id,
        "delivery.count": str(letters.delivery_count),
        "message": letters.reason,
    }
    headers: list[tuple[str, bytes | None]] = [(f"__dlq.errors.{name}", text.encode()) for name, text in told.items()]
    return (None, None, headers) if copy is None else (copy.key, copy.value, headers)
