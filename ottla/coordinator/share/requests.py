"""What goes into and comes out of a share shard."""

from __future__ import annotations

import msgspec

from ottla.coordinator.share.batches import StateBatch


class ShareStateConfig(msgspec.Struct, frozen=True):
    """``updates_per_snapshot`` is ``share.coordinator.snapshot.update.records.per.snapshot``.

    ``max_state_batches`` bounds the runs of records in one state that a share partition may have, all of which a snapshot writes
    and reads in one stretch: as many as records may be in flight (``group.share.max.partition.max.record.locks``).
    """

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
    max_state_batches: int = 4_000


class StateWrite(msgspec.Struct, frozen=True):
    """What a share partition's leader asks to be persisted."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateBatch, ...] = ()


class StateRead(msgspec.Struct, frozen=True):
    """Answer of ReadShareGroupState."""

    state_epoch: int
    start_offset: int
    state_batches: tuple[StateBatch, ...] = ()


class StateSummary(msgspec.Struct, frozen=True):
    """Answer of ReadShareGroupStateSummary; as it stands here where nothing was initialised."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    delivery_complete_count: int = -1
