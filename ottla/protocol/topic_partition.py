"""The name of a partition, shared by all rooms (org.apache.kafka.common.TopicPartition)."""

from __future__ import annotations

TopicPartition = tuple[str, int]
"""Topic name and partition index."""
MAX_PARTITION = 0x7FFFFFFF
"""Messages have a partition index in 32 bits, with a sign."""
