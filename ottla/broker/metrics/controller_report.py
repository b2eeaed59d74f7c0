"""What a controller knows that its metrics say. The module does without prometheus_client, whose import is slow."""

from __future__ import annotations

import msgspec

from ottla.coordinator.metadata.cluster import ClusterState


class ControllerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the process that is the controller knows of the cluster."""

    state: ClusterState
    end_offset: int
    """Log end offset of the metadata log, whose records are applied as they are appended."""
    high_watermark: int
    unclean_elections: int = 0
    eligible_elections: int = 0
    damaged_partitions: int = 0
    """Partitions of a cluster of one broker whose log is offline: nobody can lead them, though no election took the leader away."""
