"""The events of the cluster's metadata that other parts of the broker follow, and the handling of failures.

`metadata_publisher` and `local_partitions` call the listener. `BrokerServer.start` passes it to `MetadataSource.load`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from ottla.broker.loop.lifecycle import without_text

log = structlog.get_logger("cluster")


class MetadataFaults:
    """Collects the failures while one change is carried out, so that a failed step does not prevent the next steps.

    Each change is applied only once, so a skipped step would never be carried out (Kafka's metadataPublishingFaultHandler).
    """

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: Exception | None = None

    def attempt(self, step: Callable[[], object], what: str, *, may_have_secrets: bool = False, **of: object) -> None:
        """Carry out one step. ``what`` and ``of`` identify the step in the log event of a failure, which omits the text of the
        exception if it ``may_have_secrets``."""
        try:
            step()
        except Exception as error:
            log.error("metadata_step_failed", step=what, **of, reason=without_text(error) if may_have_secrets else repr(error))
            self._first = self._first or error

    def raise_first(self) -> None:
        """Raise the first failure, if any, after all steps were attempted. The failure is a bug, and is counted as a bug."""
        if self._first is not None:
            raise self._first


class Coordinator(Protocol):
    """A coordinator that works on the partitions of an internal topic that this broker leads."""

    def elected(self, index: int, leader_epoch: int) -> None:
        """Called when this broker begins to lead a partition of the coordinator's topic, with the leader epoch."""
        ...

    def resigned(self, index: int) -> None:
        """Called when this broker no longer leads a partition of the coordinator's topic."""
        ...


class MetadataListener(Protocol):
    """Is notified of metadata changes for all coordinators. Methods with ``faults`` run each step with `MetadataFaults.attempt`."""

    @property
    def by_topic(self) -> Mapping[str, Coordinator]:
        """The coordinators by internal topic, in the order in which a starting broker loads them."""
        ...

    def topic_changed(self, name: str, faults: MetadataFaults) -> None:
        """Called after a topic was created or deleted, or got more partitions."""
        ...

    def topic_deleted(self, name: str, faults: MetadataFaults) -> None:
        """Called after a topic was deleted and its partitions are out of service, before `topic_changed`."""
        ...

    def features_changed(self) -> None:
        """Called after the finalized level of a feature has changed."""
        ...
