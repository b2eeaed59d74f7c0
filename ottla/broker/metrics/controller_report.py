"""The values for a controller's metrics. This module does not import prometheus_client, because that is slow."""

from __future__ import annotations

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
    damaged_partitions: int = 0
    """In a cluster of one broker: number of partitions whose leader cannot serve clients, because the log is offline."""
