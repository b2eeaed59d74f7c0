"""Reports to the controller the log directory of this broker's replicas (KIP-858; AssignmentsManager of Kafka).

The metadata has a log directory for each replica. If the replica's broker has not registered that directory, the controller regards
it as failed, and does not elect the replica. A broker on a new disk has a new directory id, and reports it until the controller
acknowledges the report.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

import structlog

from ottla.broker.loop.env import Clock, Randomness, Timer, Timers
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.membership.lifecycle import BrokerLifecycle
from ottla.broker.partitions.partitions import Partition
from ottla.broker.peers.backoff import Backoff
from ottla.broker.peers.requests import PeerFailure
from ottla.broker.replication.in_sync_changes import Controller
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.metadata_records import DIRECTORY_ASSIGNMENT
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.protocol.errors import Code
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from ottla.protocol.remedies import name_of

MAX_ASSIGNMENTS = 2_250
"""Upper bound on the replicas in one request (AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST)."""
FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS = 100, 10_000
"""Shortest and longest delay in ms before a failed request is repeated, as in Kafka."""

Replica = tuple[bytes, int]
"""Topic id and partition number."""

log = structlog.get_logger("membership")


class AssignmentEnv(Clock, Randomness, Timers, Protocol):
    """The part of `broker.loop.env.Env` that `DirectoryAssignments` uses."""


class DirectoryAssignments:
    """The replicas whose directory the controller does not know yet. One request is in flight at a time."""

    def __init__(
        self, env: AssignmentEnv, controller: Controller, lifecycle: BrokerLifecycle, state: ClusterState, directory_id: bytes
    ) -> None:
        self._env = env
        self._controller = controller
        self._lifecycle = lifecycle
        self._state = state
        self._directory_id = directory_id
        self._waiting: dict[Replica, None] = {}
        self._in_flight: dict[Replica, None] = {}
        self._backoff = Backoff(first_ms=FIRST_BACKOFF_MS, longest_ms=LONGEST_BACKOFF_MS)
        self._errors = RepeatedErrors(env, log)
        self._timer: Timer | None = None
        self._is_closed = False

    def check(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Report a replica's directory to the controller unless the metadata already has it."""
        if self._is_elsewhere(registration) and not partition.log.is_offline:
            replica = (partition.log.topic_id, partition.log.partition)
            if replica not in self._in_flight:
                self._waiting[replica] = None
                self._send_after(0)

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _is_elsewhere(self, registration: PartitionRegistration) -> bool:
        """Whether the metadata has a replica of this broker in another directory, or without a directory."""
        if self._state.metadata_version < DIRECTORY_ASSIGNMENT:
            return False
        node_id = self._state.node_id
        return node_id in registration.replicas and registration.directory_of(node_id) != self._directory_id

    def _send_after(self, delay_ms: float) -> None:
        if self._timer is None and not self._in_flight and not self._is_closed:
            self._timer = self._env.call_later(delay_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        if not self._lifecycle.is_registered:
            self._failed("this broker is not registered")
            return
        topics: dict[bytes, list[PartitionData]] = {}
        for replica in list(islice(self._waiting, MAX_ASSIGNMENTS)):
            del self._waiting[replica]
            if self._is_wanted(replica):
                self._in_flight[replica] = None
                topics.setdefault(replica[0], []).append(PartitionData(partition_index=replica[1]))
        if topics:
            named = [TopicData(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]
            request = AssignReplicasToDirsRequest(
                broker_id=self._state.node_id,
                broker_epoch=self._lifecycle.broker_epoch,
                directories=[DirectoryData(id=self._directory_id, topics=named)],
            )
            self._controller.send(request, self._answered)
        elif self._waiting:
            self._send_after(0)

    def _is_wanted(self, replica: Replica) -> bool:
        """Whether this broker still has the replica, and the metadata does not have the replica's directory yet."""
        topic = self._state.topics_by_id.get(replica[0])
        return topic is not None and replica[1] < topic.partition_count and self._is_elsewhere(topic.partitions[replica[1]])

    def _answered(self, answer: Any) -> None:
        asked, self._in_flight = self._in_flight, {}
        if self._is_closed:
            return
        reason = ""
        if isinstance(answer, PeerFailure):
            reason = answer.reason
        elif answer.error_code != Code.NONE:
            # Retry later: the broker epoch is stale, or another node is the controller.
            reason = name_of(answer.error_code)
        else:
            for replica, code in _codes(answer):
                if code == Code.NONE:
                    asked.pop(replica, None)
                elif replica in asked:
                    reason = name_of(code)
        self._waiting = {**asked, **self._waiting}
        if asked:
            self._failed(reason or "the controller's response does not name every replica")
        else:
            self._backoff.reset()
            self._errors.succeeded()
            log.info("replica_directories_assigned", directory=self._directory_id.hex(), waiting=len(self._waiting))
            if self._waiting:
                self._send_after(0)

    def _failed(self, reason: str) -> None:
        self._errors.failed("directory_assignment_delayed", reason, replicas=len(self._waiting))
        self._send_after(self._backoff.next_ms(int.from_bytes(self._env.random_uuid()[:4], "big") / (1 << 32)))


def _codes(answer: Any) -> Iterator[tuple[Replica, int]]:
    for directory in answer.directories:
        for topic in directory.topics:
            for partition in topic.partitions:
                yield (topic.topic_id, partition.partition_index), partition.error_code
