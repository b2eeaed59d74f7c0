"""Chooses the replica that a consumer should read from (KIP-392, RackAwareReplicaSelector,
ReplicaManager.findPreferredReadReplica)."""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.replication.leader import Leader

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The value of ``replica.selector.class`` with which consumers read from a replica in their own rack."""


def preferred_replica(leader: Leader, rack: str, rack_of: Callable[[int], str | None], fetch_offset: int) -> int | None:
    """Return the follower in ``rack`` to read from, or None for the leader.

    ``rack_of`` returns the rack of a live broker. Only in-sync followers are candidates, because other followers may lag forever.
    The follower with the most records wins.
    """
    if not rack or rack_of(leader.broker_id) == rack:
        return None
    near = [
        (follower.end_offset, follower.caught_up_ms, -broker_id)
        for broker_id, follower in leader.followers.items()
        if broker_id in leader.in_sync.committed
        and follower.start_offset <= fetch_offset <= follower.end_offset
        and rack_of(broker_id) == rack
    ]
    return -max(near)[2] if near else None
