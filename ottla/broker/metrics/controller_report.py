"""The values for a controller's metrics. Kept apart from prometheus_client, whose import is slow."""

from __future__ import annotations

import msgspec

from ottla.coordinator.metadata.cluster import ClusterState


class ControllerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's state at the process that is the controller."""

    state: ClusterState
    end_offset: int
    """Log end offset of the metadata log, whose records are applied as they are appended."""
    high_watermark: int
    unclean_elections: int = 0
    eligible_elections: int = 0
    damaged_partitions: int = 0
    """Partitions of a cluster of one broker whose log is offline: they have a leader that cannot lead them."""
