"""Epochs that stand for something else, in groups in which the broker assigns (KIP-848, KIP-932, KIP-1071)."""

from __future__ import annotations

JOIN_EPOCH = 0
"""Of the heartbeat by which a member joins."""
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""A static member goes away for a while and keeps what it has until its session ends."""
FIRST_EPOCH = 1
"""Of a group, and of its target, before its first member (Apache Kafka 4.4)."""
NO_TARGET_EPOCH = -1
"""After the tombstone of a target assignment."""
