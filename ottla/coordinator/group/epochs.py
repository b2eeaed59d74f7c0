"""Member and group epochs with a special meaning, in groups whose assignments the broker computes (KIP-848, KIP-932, KIP-1071)."""

from __future__ import annotations

JOIN_EPOCH = 0
"""The member epoch in the heartbeat of a member that joins."""
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The member epoch of a static member that leaves temporarily, and keeps its assignment until its session expires."""
FIRST_EPOCH = 1
"""The epoch of a group, and of its target, before its first member (Apache Kafka 4.4)."""
NO_TARGET_EPOCH = -1
"""The epoch of a target assignment that a tombstone removed."""
