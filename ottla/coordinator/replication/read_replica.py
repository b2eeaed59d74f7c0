"""From which replica a consumer should read (KIP-392, RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica)."""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.replication.leader import Leader

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The value of ``replica.selector.class`` with which consumers are sent to a replica in their own rack."""


def preferred_replica(leader: Leader, rack: str, rack_of: Callable[[int], str | None], fetch_offset: int) -> int | None:
    """The follower to read from; None where the leader itself is to be read.

    ``rack_of`` gives the rack of a live broker. A follower out of sync may fall behind for good, so only those in sync are named,
    the one that has most first.
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
