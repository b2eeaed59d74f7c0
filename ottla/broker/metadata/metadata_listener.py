"""The events of the cluster's metadata that other parts of the broker follow.

`metadata_publisher` and `local_partitions` call the listener, which `BrokerServer.start` passes to `MetadataSource.load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ottla.broker.metadata.metadata_faults import MetadataFaults


class Coordinator(Protocol):
    """A coordinator that works on the partitions of an internal topic that this broker leads."""

    def elected(self, index: int, leader_epoch: int) -> None:
        """This broker now leads a partition of the coordinator's topic, in this leader epoch."""
        ...

    def resigned(self, index: int) -> None:
        """This broker no longer leads the partition."""
        ...


class MetadataListener(Protocol):
    """Follows the metadata on behalf of all coordinators. A method that gets ``faults`` carries out each of its steps by
    `MetadataFaults.attempt`, so that a failure of one does not prevent the others."""

    @property
    def by_topic(self) -> Mapping[str, Coordinator]:
        """The coordinators by internal topic, in the order in which a start loads them."""
        ...

    def topic_changed(self, name: str, faults: MetadataFaults) -> None:
        """A topic was created, grew, or was deleted."""
        ...

    def topic_deleted(self, name: str, faults: MetadataFaults) -> None:
        """A topic was deleted, and its partitions are out of service. `topic_changed` follows."""
        ...

    def features_changed(self) -> None:
        """The finalized level of a feature has changed."""
        ...
