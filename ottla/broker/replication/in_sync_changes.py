"""Requests changes of in-sync sets from the controller, one request at a time (kafka.server.AlterPartitionManager)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import structlog

from ottla.broker.loop.counters import Counters
from ottla.broker.loop.env import Clock, Timer, Timers
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.partitions.partitions import Partition
from ottla.broker.peers.requests import PeerFailure, Then
from ottla.coordinator.replication.in_sync import InSync, InSyncState
from ottla.protocol.errors import Code, known_code
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from ottla.protocol.remedies import name_of

RETRY_MS = 50
"""Delay before a failed request is sent again, in ms."""
PARTITIONS_PER_REQUEST = 2_000

PARTITIONS = "partitions"
"""The key in `RepeatedErrors` for refused changes of single partitions."""

log = structlog.get_logger("replication")


class ChangeEnv(Clock, Timers, Protocol):
    """The part of `broker.loop.env.Env` that `InSyncChanges` uses."""


class Controller(Protocol):
    def send(self, message: Any, then: Then) -> None:
        """Send a request, and call ``then`` later with the response or a `PeerFailure`."""
        ...


class InSyncChanges:
    """The pending changes of in-sync sets; only the newest change of each partition is kept."""

    def __init__(
        self,
        env: ChangeEnv,
        controller: Controller,
        counters: Counters,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        changed: Callable[[Partition], None],
    ) -> None:
        """``changed`` is called with a partition whose in-sync set the controller has changed."""
        self._timers = env
        self._errors = RepeatedErrors(env, log)
        self._controller = controller
        self._counters = counters
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._changed = changed
        self._waiting: dict[Partition, InSync] = {}
        self._in_flight: dict[tuple[bytes, int], tuple[Partition, InSync]] = {}
        self._is_in_flight = False
        self._timer: Timer | None = None
        self._is_closed = False

    def ask(self, partition: Partition, change: InSync) -> None:
        self._waiting[partition] = change
        self._send_soon()

    def forget(self, partition: Partition) -> None:
        """Drop the pending change of a partition that the broker no longer leads."""
        self._waiting.pop(partition, None)

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _send_soon(self, delay_ms: float = 0) -> None:
        """Send the pending changes later, together with changes that are added in the same iteration of the event loop."""
        if self._timer is None and not self._is_in_flight and not self._is_closed:
            self._timer = self._timers.call_later(delay_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        topics: dict[bytes, list[PartitionData]] = {}
        for partition, change in list(self._waiting.items())[:PARTITIONS_PER_REQUEST]:
            del self._waiting[partition]
            if not partition.is_led or partition.leader.in_sync is not change:
                # Drop a change that newer metadata has replaced.
                continue
            leader, partition_log = partition.leader, partition.log
            topics.setdefault(partition_log.topic_id, []).append(
                PartitionData(
                    partition_index=partition_log.partition,
                    leader_epoch=leader.leader_epoch,
                    new_isr=sorted(change.proposed),
                    new_isr_with_epochs=[
                        BrokerState(broker_id=broker_id, broker_epoch=epoch)
                        for broker_id, epoch in leader.broker_epochs(change).items()
                    ],
                    partition_epoch=change.partition_epoch,
                )
            )
            self._in_flight[partition_log.topic_id, partition_log.partition] = (partition, change)
        if topics:
            self._is_in_flight = True
            request = AlterPartitionRequest(
                broker_id=self._broker_id,
                broker_epoch=self._broker_epoch(),
                topics=[TopicData(topic_id=topic_id, partitions=named) for topic_id, named in topics.items()],
            )
            self._controller.send(request, self._answered)

    def _answered(self, answer: Any) -> None:
        asked, self._in_flight = self._in_flight, {}
        self._is_in_flight = False
        if self._is_closed:
            return
        if isinstance(answer, PeerFailure):
            self._errors.failed("in_sync_change_delayed", answer.reason, level="info")
        elif answer.error_code != Code.NONE:
            # The broker epoch is stale, or another node is the controller. Newer metadata resolves both, so retry.
            self._errors.failed("in_sync_change_delayed", name_of(answer.error_code), level="info")
        else:
            self._errors.succeeded()
            self._take(answer, asked)
        for partition, change in asked.values():
            if partition.is_led and partition.leader.in_sync is change:
                self._waiting.setdefault(partition, change)
        if self._waiting:
            self._send_soon(RETRY_MS if asked else 0)

    def _take(self, answer: AlterPartitionResponse, asked: dict[tuple[bytes, int], tuple[Partition, InSync]]) -> None:
        """Process the results of single partitions, and leave in ``asked`` the changes to retry."""
        with self._errors.round(PARTITIONS):
            for topic in answer.topics:
                for one in topic.partitions:
                    partition, change = asked.pop((topic.topic_id, one.partition_index), (None, None))
                    if partition is None or change is None or not partition.is_led:
                        continue
                    if self._is_to_be_asked_again(partition, change, one):
                        asked[topic.topic_id, one.partition_index] = (partition, change)

    def _is_to_be_asked_again(self, partition: Partition, change: InSync, answer: ResponsePartitionData) -> bool:
        """Process the result for one partition; returns whether to retry the same change."""
        leader, code = partition.leader, answer.error_code
        is_pending = leader.in_sync is change
        if code == Code.NONE:
            if leader.altered(change, frozenset(answer.isr), answer.leader_epoch, answer.partition_epoch):
                self._count(change)
                log.info("in_sync_changed", partition=repr(partition.log), in_sync=sorted(answer.isr))
                self._changed(partition)
            elif is_pending:
                self._counters.failed_isr_updates += 1
            return False
        # Count each refusal, but no error of a change that newer metadata has replaced (Partition.handleAlterPartitionError).
        self._counters.failed_isr_updates += is_pending
        # One key for all partitions: if a controller refuses all changes, one line is logged, with the first partition.
        wanted = sorted(change.proposed)
        self._errors.failed(
            "in_sync_change_refused", name_of(code), key=PARTITIONS, level="info", partition=repr(partition.log), asked=wanted
        )
        return leader.alter_refused(change, known_code(code))

    def _count(self, change: InSync) -> None:
        if change.state is InSyncState.PENDING_EXPANSION:
            self._counters.isr_expands += 1
        else:
            self._counters.isr_shrinks += 1
