"""Logs a controller's decisions on fencing, leaders and in-sync replicas, with their reasons, and counts elections.

The states before and after a decision are compared after its records were written, so refused decisions are neither logged nor
counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import structlog

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import RECOVERING, PartitionRegistration
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import decode_body
from ottla.protocol.messages import partition_change_record
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.protocol.primitives import read_uvarint

MAX_LINES = 100
"""Maximum number of changed partitions logged for one decision. Logging thousands would delay the controller for seconds."""
CLEAN, ELIGIBLE, UNCLEAN = "clean", "eligible", "unclean"

log = structlog.get_logger("controller")


class Cause(msgspec.Struct, frozen=True):
    """The reason for a decision, in words for log events about partitions, and in words for log events about the broker."""

    of_partitions: str
    of_broker: str = ""
    is_failure: bool = False
    """Whether to log a warning if a broker is fenced for this reason."""


def caused_by(broker_id: int, what: str, *, is_failure: bool = False) -> Cause:
    """The reason for decisions that an action of a broker causes. ``what`` names the action, such as ``was restarted``."""
    return Cause(f"broker {broker_id} {what}", f"the broker {what}", is_failure)


class ElectionCounts(msgspec.Struct):
    """Numbers of unclean elections, and of elections of eligible leader replicas, since the start, as in Kafka's TopicDelta."""

    unclean: int = 0
    eligible: int = 0


class StateBefore(msgspec.Struct, frozen=True):
    """The state, before a decision, of the brokers and partitions that the decision may change."""

    fenced: dict[int, bool]
    partitions: list[tuple[Topic, PartitionChangeRecord, PartitionRegistration]]


class DecisionLog:
    """Logs and counts the decisions of one controller."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.elections = ElectionCounts()

    def before(self, records: Sequence[LogRecord]) -> StateBefore:
        """The current state of all brokers, and of the partitions that the records of a decision will change."""
        partitions = []
        for record in records:
            change = _partition_change(record)
            topic = None if change is None else self._state.topics_by_id.get(change.topic_id)
            if change is not None and topic is not None and change.partition_id < topic.partition_count:
                partitions.append((topic, change, topic.partitions[change.partition_id]))
        return StateBefore({b.broker_id: b.is_fenced for b in self._state.registrations.brokers.values()}, partitions)

    def report(self, before: StateBefore, cause: Cause) -> None:
        """Log and count the differences between the state ``before`` and the current state."""
        for broker_id, was_fenced in before.fenced.items():
            broker = self._state.registrations.brokers.get(broker_id)
            if broker is not None and broker.is_fenced != was_fenced:
                event = "broker_fenced" if broker.is_fenced else "broker_unfenced"
                write = log.warning if broker.is_fenced and cause.is_failure else log.info
                write(event, broker_id=broker_id, broker_epoch=broker.broker_epoch, reason=cause.of_broker or cause.of_partitions)
        changed = 0
        for topic, change, partition in before.partitions:
            changed += self._partition_changed(topic, change, partition, cause, is_logged=changed < MAX_LINES)
        if changed > MAX_LINES:
            log.info("more_partitions_changed", partitions=changed - MAX_LINES, reason=cause.of_partitions)

    def _partition_changed(
        self, topic: Topic, change: PartitionChangeRecord, before: PartitionRegistration, cause: Cause, *, is_logged: bool
    ) -> bool:
        after = topic.partitions[change.partition_id]
        election = CLEAN
        if change.leader_recovery_state == RECOVERING:
            election = UNCLEAN
            self.elections.unclean += 1
        elif after.leader in before.elr and after.leader != before.leader:
            election = ELIGIBLE
            self.elections.eligible += 1
        has_other_leader = after.leader != before.leader
        if not has_other_leader and set(after.isr) == set(before.isr):
            return False
        if is_logged:
            fields = {"topic": topic.name, "partition": change.partition_id}
            isr = {"leader_epoch": after.leader_epoch, "isr": list(after.isr), "previous_isr": list(before.isr)}
            if not has_other_leader:
                log.info("in_sync_changed", **fields, **isr, reason=cause.of_partitions)
            elif not after.has_leader:
                log.warning("leader_lost", **fields, previous_leader=before.leader, **isr, reason=cause.of_partitions)
            else:
                write = log.warning if election == UNCLEAN else log.info
                leaders = {"leader": after.leader, "previous_leader": before.leader, "election": election}
                write("leader_elected", **fields, **leaders, **isr, reason=cause.of_partitions)
        return True


def _partition_change(record: LogRecord) -> PartitionChangeRecord | None:
    raw = record.value or b""
    _, pos = read_uvarint(raw, 0)
    kind, pos = read_uvarint(raw, pos)
    if kind != partition_change_record.RECORD_TYPE:
        return None
    version, pos = read_uvarint(raw, pos)
    change: PartitionChangeRecord = decode_body(partition_change_record.decode, raw, pos, version)
    return change
