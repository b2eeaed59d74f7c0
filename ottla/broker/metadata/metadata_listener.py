"""The events of the cluster's metadata that other parts of the broker follow, and the handling of failures.

`metadata_publisher` and `local_partitions` call the listener, which `BrokerServer.start` passes to `MetadataSource.load`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

log = structlog.get_logger("cluster")


class MetadataFaults:
    """Collects the failures while one change is carried out, so that every step is attempted even if one of them fails.

    Each change is applied once and then forgotten: a step skipped because of an earlier failure would never be carried out. Apache
    Kafka passes such failures to its metadataPublishingFaultHandler, and continues as well.
    """

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: Exception | None = None

    def attempt(self, step: Callable[[], object], what: str, **of: object) -> None:
        """Carry out one step. ``what`` and ``of`` identify the step in the log."""
        try:
            step()
        except Exception as error:
            log.error("metadata_step_failed", step=what, **of, reason=repr(error))
            self._first = self._first or error

    def raise_first(self) -> None:
        """Raise the first failure after all other steps were carried out. It is a bug, and is counted as one."""
        if self._first is not None:
            raise self._first


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
    `MetadataFaults.attempt`, so that a failed step does not prevent the next ones."""

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
