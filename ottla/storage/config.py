"""The settings of one log, with the names and defaults of Kafka's topic configs (TopicConfig, LogConfig)."""

from __future__ import annotations

import msgspec

from ottla.protocol.record_stream import MAX_RECORD_BYTES

NEVER_MS = 9_223_372_036_854_775_807
AS_PRODUCED = "producer"
"""The ``compression.type`` of a topic that stores batches with the compression that clients chose."""


class LogConfig(msgspec.Struct, frozen=True):
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1_048_588
    max_decompressed_message_bytes: int = MAX_RECORD_BYTES
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = NEVER_MS
    message_timestamp_after_max_ms: int = 3_600_000
    cleanup_policy: tuple[str, ...] = ("delete",)
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER_MS
    min_insync_replicas: int = 1
    compression_type: str = AS_PRODUCED
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3

    @property
    def is_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention deletes old segments. With an empty ``cleanup.policy`` segments are neither deleted nor compacted."""
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The maximum age of the active segment in ms (LogConfig.maxSegmentMs).

        Only closed segments are compacted, so a segment must be closed within ``max.compaction.lag.ms``.
        """
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
