"""The name of a partition (org.apache.kafka.common.TopicPartition)."""

from __future__ import annotations

TopicPartition = tuple[str, int]
"""Topic name and partition index."""
MAX_PARTITION = 0x7FFFFFFF
"""The largest partition index: messages have it as a signed 32-bit number."""
