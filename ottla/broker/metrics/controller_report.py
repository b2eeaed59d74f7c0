"""The values for a controller's metrics. This module does not import prometheus_client, because that is slow."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ottla.coordinator.metadata.cluster import ClusterState


class ControllerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster as its controller knows it."""

    state: ClusterState
    end_offset: int
    """Log end offset of the metadata log, whose records are applied as they are appended."""
    high_watermark: int
    unclean_elections: int = 0
    eligible_elections: int = 0
    expired_sessions: int = 0
    """Number of brokers that were fenced since the start of the controller because their session timed out."""
    silence_ms: Mapping[int, int]
    """Time since the last heartbeat, in ms, by the id of each registered broker; at most the session timeout."""
    damaged_partitions: int = 0
    """In a cluster of one broker: number of partitions whose leader cannot serve clients, because the log is offline."""
