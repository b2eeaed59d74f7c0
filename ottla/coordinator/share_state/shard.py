"""One partition of ``__share_group_state``: the decisions about its share partitions (ShareCoordinatorShard of Kafka).

A command reads the state and returns records; ``replay`` changes the state. Errors are `KafkaError` with the message for the
response. The state epoch fences clients of a deleted group when a new group has the same id; the leader epoch fences earlier
leaders of the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import msgspec

from ottla.coordinator.result import LogRecord, Result, decided_in_batches
from ottla.coordinator.share_state.batches import NO_OFFSET, are_in_order, combine, most_combined
from ottla.coordinator.share_state.records import (
    ShareKey,
    ShareState,
    ShareUpdate,
    from_record,
    snapshot_record,
    tombstone,
    update_record,
)
from ottla.coordinator.share_state.requests import ShareStateConfig, StateRead, StateSummary, StateWrite
from ottla.protocol.errors import Code, KafkaError

HasPartition = Callable[[bytes, int], bool]
"""A function that returns whether a topic, given by id, has a partition with this number."""

_NEGATIVE_PARTITION = "The partition id cannot be a negative number."
_NEGATIVE_LEADER_EPOCH = "The leader epoch cannot be a negative number."
_NEGATIVE_STATE_EPOCH = "The state epoch cannot be a negative number."
_READ_UNINITIALISED = "Read operation on uninitialized share partition not allowed."
_WRITE_UNINITIALISED = "Write operation on uninitialized share partition not allowed."
_FENCED_LEADER = "The leader epoch in the request is older than the epoch on the broker."
_FENCED_STATE = "The coordinator rejected the request because the state epoch did not match."
_NOT_HOSTED = "This server does not host this topic-partition."


class Persisted(msgspec.Struct):
    """The state of one share partition, from all of its records.

    The highest epochs are stored separately: a newly initialized state has leader epoch 0, but earlier leaders must stay fenced.
    """

    state: ShareState
    state_epoch: int = -1
    leader_epoch: int = -1
    updates: int = 0
    """Number of update records. As in Kafka, a snapshot resets it only if `updates_per_snapshot` is reached."""
    snapshot_offset: int = -1
    """The log offset of the last snapshot, -1 if there is none."""


class ShareShard:
    """The share partitions of one partition of the log, and their states."""

    def __init__(self, partition: int, config: ShareStateConfig, has_partition: HasPartition) -> None:
        self.partition = partition
        self.config = config
        self._has_partition = has_partition
        self.persisted: dict[ShareKey, Persisted] = {}

    # deciding changes of share partitions' states

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, now_ms: int) -> Result[None]:
        """Replace any state by an empty state. ``start_offset`` is -1 if the first fetch determines it."""
        _check_numbers(key, state_epoch=state_epoch)
        current = self.persisted.get(key)
        if current is not None and current.state_epoch > state_epoch:
            raise KafkaError(Code.FENCED_STATE_EPOCH, _FENCED_STATE)
        self._check_hosted(key)
        state = ShareState(
            snapshot_epoch=0 if current is None else current.state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=-1 if start_offset == -1 else 0,
            create_ms=now_ms,
            write_ms=now_ms,
        )
        return Result(None, records=[snapshot_record(key, state)])

    def read(self, key: ShareKey, leader_epoch: int, now_ms: int) -> Result[StateRead]:
        """Return the whole state to the current leader of the partition. Earlier leaders are fenced from then on."""
        _check_numbers(key, leader_epoch=leader_epoch)
        current = self._initialised(key, _READ_UNINITIALISED)
        if current.leader_epoch > leader_epoch:
            raise KafkaError(Code.FENCED_LEADER_EPOCH, _FENCED_LEADER)
        self._check_hosted(key)
        state = current.state
        answer = StateRead(state.state_epoch, state.start_offset, state.state_batches)
        if current.leader_epoch == leader_epoch:
            return Result(answer)
        write = StateWrite(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count)
        return Result(answer, records=[self._written(key, current, write, leader_epoch, now_ms)])

    def write(self, key: ShareKey, write: StateWrite, now_ms: int) -> Result[None]:
        _check_numbers(key, leader_epoch=write.leader_epoch, state_epoch=write.state_epoch)
        current = self._initialised(key, _WRITE_UNINITIALISED)
        if current.leader_epoch > write.leader_epoch:
            raise KafkaError(Code.FENCED_LEADER_EPOCH, _FENCED_LEADER)
        if current.state_epoch > write.state_epoch:
            raise KafkaError(Code.FENCED_STATE_EPOCH, _FENCED_STATE)
        self._check_hosted(key)
        for batch in write.state_batches:
            if batch.last_offset < batch.first_offset:
                raise KafkaError(
                    Code.INVALID_REQUEST, f"A state batch ends before it begins: {batch.first_offset} to {batch.last_offset}"
                )
        self._check_combined(current.state, write)
        # A write does not change the leader epoch; only a read does.
        return Result(None, records=[self._written(key, current, write, current.state.leader_epoch, now_ms)])

    def _check_combined(self, state: ShareState, write: StateWrite) -> None:
        most = self.config.max_state_batches
        if most_combined(len(state.state_batches), len(write.state_batches)) <= most:
            return
        start_offset = max(write.start_offset, state.start_offset)
        count = len(combine(state.state_batches, write.state_batches, start_offset))
        if count > most:
            message = f"the share partition would have {count} state batches; at most {most} are allowed"
            raise KafkaError(Code.INVALID_REQUEST, message)

    def read_summary(self, key: ShareKey) -> StateSummary:
        _check_numbers(key)
        self._check_hosted(key)
        current = self.persisted.get(key)
        if current is None:
            return StateSummary()
        state = current.state
        return StateSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)

    def batch_count(self, key: ShareKey) -> int:
        """Return the number of state batches of a share partition, 0 without a state."""
        persisted = self.persisted.get(key)
        return 0 if persisted is None else len(persisted.state.state_batches)

    def delete(self, key: ShareKey) -> Result[None]:
        """Delete the state. The response is the same if there is no state."""
        _check_numbers(key)
        self._check_hosted(key)
        return Result(None, records=[tombstone(key)] if key in self.persisted else [])

    def _initialised(self, key: ShareKey, refusal: str) -> Persisted:
        current = self.persisted.get(key)
        if current is None:
            raise KafkaError(Code.INVALID_REQUEST, refusal)
        return current

    def _check_hosted(self, key: ShareKey) -> None:
        if not self._has_partition(key.topic_id, key.partition):
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HOSTED)

    def _written(self, key: ShareKey, current: Persisted, write: StateWrite, leader_epoch: int, now_ms: int) -> LogRecord:
        """Encode a write as an update or, after ``updates_per_snapshot``, as a snapshot. The start offset never decreases."""
        state = current.state
        start_offset = max(write.start_offset, state.start_offset)
        complete_count = write.delivery_complete_count
        if write.start_offset == state.start_offset:
            complete_count = max(complete_count, state.delivery_complete_count)
        elif write.start_offset < state.start_offset:
            complete_count = state.delivery_complete_count
        if current.updates < self.config.updates_per_snapshot:
            batches = combine((), write.state_batches, start_offset)
            return update_record(key, ShareUpdate(state.snapshot_epoch, leader_epoch, start_offset, complete_count, batches))
        snapshot = ShareState(
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete_count,
            state_batches=combine(state.state_batches, write.state_batches, start_offset),
            create_ms=now_ms,
            write_ms=now_ms,
        )
        return snapshot_record(key, snapshot)

    # snapshots of old states, tombstones of deleted topics

    def cold_snapshots(self, now_ms: int, max_batch_bytes: int) -> Iterator[Result[None]]:
        """Write snapshots of states that were not written for a long time, so that the log before them can be deleted.

        Batches have at most ``max_batch_bytes``.
        """
        for records in decided_in_batches(list(self.persisted), lambda key: self._cold_snapshot(key, now_ms), max_batch_bytes):
            yield Result(None, records=records)

    def _cold_snapshot(self, key: ShareKey, now_ms: int) -> list[LogRecord]:
        persisted = self.persisted.get(key)
        if persisted is None or 0 <= now_ms - persisted.state.write_ms < self.config.cold_snapshot_interval_ms:
            # A write time in the future counts as old, because the wall clock was set back since then.
            return []
        epoch = persisted.state.snapshot_epoch + 1
        return [snapshot_record(key, msgspec.structs.replace(persisted.state, snapshot_epoch=epoch, write_ms=now_ms))]

    def forget_topics(self, topic_ids: Collection[bytes], max_batch_bytes: int) -> Iterator[Result[None]]:
        """Write tombstones for the share partitions of deleted topics, in batches of at most ``max_batch_bytes``."""
        gone = [key for key in self.persisted if key.topic_id in topic_ids]
        for records in decided_in_batches(gone, self._tombstone, max_batch_bytes):
            yield Result(None, records=records)

    def _tombstone(self, key: ShareKey) -> list[LogRecord]:
        return [tombstone(key)] if key in self.persisted else []

    def first_needed_offset(self) -> int | None:
        """Return the lowest offset of all current snapshots, from which a restart reads. None without share partitions."""
        return min((p.snapshot_offset for p in self.persisted.values()), default=None)

    # replaying records

    def clear(self) -> None:
        """Reset to the state before the first record."""
        self.persisted.clear()

    def replay(self, record: LogRecord, offset: int) -> None:
        key, decoded = from_record(record)
        if decoded is None:
            self.persisted.pop(key, None)
            return
        persisted = self.persisted.get(key)
        if not are_in_order(decoded.state_batches):
            # Batches in the log are already combined, unless an admin client wrote them.
            decoded = msgspec.structs.replace(decoded, state_batches=combine((), decoded.state_batches, NO_OFFSET))
        if isinstance(decoded, ShareState):
            if persisted is None:
                persisted = self.persisted[key] = Persisted(decoded)
            elif persisted.updates >= self.config.updates_per_snapshot:
                persisted.updates = 0
            persisted.state = decoded
            persisted.state_epoch = max(persisted.state_epoch, decoded.state_epoch)
            persisted.snapshot_offset = offset
        else:
            if persisted is None:
                persisted = self.persisted[key] = Persisted(_without_snapshot(decoded))
            else:
                persisted.state = _merged(persisted.state, decoded)
            persisted.updates += 1
        persisted.leader_epoch = max(persisted.leader_epoch, decoded.leader_epoch)


def _check_numbers(key: ShareKey, *, leader_epoch: int = 0, state_epoch: int = 0) -> None:
    if key.partition < 0:
        raise KafkaError(Code.INVALID_REQUEST, _NEGATIVE_PARTITION)
    if leader_epoch < 0:
        raise KafkaError(Code.INVALID_REQUEST, _NEGATIVE_LEADER_EPOCH)
    if state_epoch < 0:
        raise KafkaError(Code.INVALID_REQUEST, _NEGATIVE_STATE_EPOCH)


def _merged(state: ShareState, update: ShareUpdate) -> ShareState:
    start_offset = state.start_offset if update.start_offset == -1 else update.start_offset
    return msgspec.structs.replace(
        state,
        start_offset=start_offset,
        leader_epoch=state.leader_epoch if update.leader_epoch == -1 else update.leader_epoch,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=combine(state.state_batches, update.state_batches, start_offset),
    )


def _without_snapshot(update: ShareUpdate) -> ShareState:
    """Return the state of an update whose snapshot is missing: an admin client may have deleted the snapshot."""
    return ShareState(
        snapshot_epoch=update.snapshot_epoch,
        state_epoch=0,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=update.state_batches,
    )
