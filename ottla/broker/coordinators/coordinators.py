"""Builds the coordinators of a broker, passes metadata changes to them, and starts their periodic tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from ottla.broker.coordinators.dead_letters import DeadLetterTopics
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.markers import MARKERS_AT_ONCE, MarkerTransport
from ottla.broker.coordinators.share_groups import ShareGroupStates
from ottla.broker.coordinators.share_partitions import SharePartitions
from ottla.broker.coordinators.share_states import ShareStates
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.metadata.metadata_listener import Coordinator, MetadataFaults
from ottla.broker.metadata.metadata_source import MetadataSource
from ottla.broker.partitions.housekeeping import Housekeeping
from ottla.broker.partitions.kernel import Kernel
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ottla.protocol.steps import Steps

GROUP_TICK_MS = 50
"""Interval in ms at which the timeouts of groups are checked."""
DELETED_OFFSETS_RETRY_MS = 5_000
"""Interval in ms at which the broker retries to remove the remaining offsets of deleted topics."""


class LocalTransport:
    """Calls this broker's own WriteTxnMarkers handler. Many markers are written in steps, so that other work can run."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        write: Callable[[WriteTxnMarkersRequest], Steps[WriteTxnMarkersResponse]],
        failed: Callable[[WriteTxnMarkersRequest, int, Code], WriteTxnMarkersResponse],
    ) -> None:
        """``write`` handles a request in steps; ``failed`` builds the response with one error for all partitions."""
        self._stepping = kernel.stepping
        self._lifecycle = kernel.lifecycle
        self._write = write
        self._failed = failed

    def write_txn_markers(self, request: WriteTxnMarkersRequest, on_response: Callable[[WriteTxnMarkersResponse], None]) -> None:
        def gave_up(error: Exception) -> None:
            # After a bug, respond with a retriable error, so that the coordinator sends the markers again.
            on_response(self._failed(request, 0, Code.REQUEST_TIMED_OUT))
            raise error

        count = sum(len(topic.partition_indexes) for marker in request.markers for topic in marker.topics)
        is_small = count <= MARKERS_AT_ONCE or not self._lifecycle.is_serving
        (self._stepping.start if is_small else self._stepping.run)(self._write(request), on_response, gave_up)


class Coordinators(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All coordinators of one broker, notified of metadata changes (`metadata_listener.MetadataListener`)."""

    state: ClusterState
    groups: Groups
    transactions: Transactions
    share_states: ShareStates
    share_partitions: SharePartitions
    share_groups: ShareGroupStates

    # passing metadata changes to the coordinators

    @property
    def by_topic(self) -> Mapping[str, Coordinator]:
        return {OFFSETS_TOPIC: self.groups, TRANSACTION_TOPIC: self.transactions, SHARE_STATE_TOPIC: self.share_states}

    def topic_changed(self, name: str, faults: MetadataFaults) -> None:
        faults.attempt(partial(self.groups.topic_changed, name), "topic changed", topic=name)

    def topic_deleted(self, name: str, faults: MetadataFaults) -> None:
        for part in (self.groups, self.transactions, self.share_states, self.share_partitions):
            faults.attempt(partial(part.topic_deleted, name), "topic deleted", topic=name)

    def features_changed(self) -> None:
        self.transactions.set_version(self.state.transaction_version)
        self.share_partitions.features_changed()

    # periodic tasks

    def begin_housekeeping(self, housekeeping: Housekeeping) -> None:
        """Start the periodic tasks: timeouts, and the expiry of transactional ids and offsets.

        If Kafka has a setting for the interval of a task, the setting applies.
        """
        groups, transactions, repeat = self.groups, self.transactions, housekeeping.repeat
        repeat("group_tick", lambda _: GROUP_TICK_MS, groups.tick)
        repeat(
            "transaction_time_outs",
            lambda s: s.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            transactions.abort_timed_out,
        )
        repeat(
            "transactional_id_expiry",
            lambda s: s.transaction_remove_expired_transaction_cleanup_interval_ms,
            transactions.expire_ids,
        )
        repeat("offset_expiry", lambda s: s.offsets_retention_check_interval_ms, groups.expire_offsets)
        repeat("deleted_topics", lambda _: DELETED_OFFSETS_RETRY_MS, groups.forget_topics, is_by_clock=False)
        self.share_states.begin_housekeeping(repeat)
        self.share_partitions.begin_housekeeping(repeat)


def make_coordinators(
    kernel: Kernel, metadata: MetadataSource, housekeeping: Housekeeping, transport: MarkerTransport, inflating: InflatingMemory
) -> Coordinators:
    """Build all coordinators. ``transport`` carries markers to partition leaders; ``inflating`` is the memory budget for dead
    letters."""
    state, cluster, partitions = metadata.state, metadata.cluster, metadata.local_partitions.partitions

    def state_lost(key: ShareKey) -> None:
        # `share_groups` is built later, because it needs `share_partitions`, which needs this function.
        share_groups.state_lost(key)

    groups = Groups(kernel, partitions, state)
    share_states = ShareStates(kernel, partitions, state, housekeeping.delete_records)
    dead_letters = DeadLetterTopics(kernel, cluster, partitions, inflating)
    share_partitions = SharePartitions(kernel, partitions, state, share_states, dead_letters, state_lost)
    share_groups = ShareGroupStates(kernel.env, groups, share_states, cluster, partitions, share_partitions.fence)
    return Coordinators(
        state=state,
        groups=groups,
        transactions=Transactions(kernel, partitions, state, metadata.producer_ids.new, transport),
        share_states=share_states,
        share_partitions=share_partitions,
        share_groups=share_groups,
    )
