"""Requests, responses and configuration of the share coordinator."""

from __future__ import annotations

import msgspec

from ottla.coordinator.share_state.batches import StateBatch


class ShareStateConfig(msgspec.Struct, frozen=True):
    """The configuration of the share coordinator.

    ``updates_per_snapshot`` is ``share.coordinator.snapshot.update.records.per.snapshot``.

    ``max_state_batches`` limits the state batches of a share partition, because a snapshot encodes or decodes all of them in a
    single step. The limit equals the maximum number of records in flight (``group.share.max.partition.max.record.locks``).
    """

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
    max_state_batches: int = 4_000


class StateWrite(msgspec.Struct, frozen=True):
    """The state changes that a share partition's leader wants to persist."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateBatch, ...] = ()


class StateRead(msgspec.Struct, frozen=True):
    """The response to ReadShareGroupState."""

    state_epoch: int
    start_offset: int
    state_batches: tuple[StateBatch, ...] = ()


class StateSummary(msgspec.Struct, frozen=True):
    """The response to ReadShareGroupStateSummary. The defaults are the response for an uninitialized state."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    delivery_complete_count: int = -1
