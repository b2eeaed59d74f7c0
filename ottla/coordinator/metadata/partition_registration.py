"""The metadata of one partition: its replicas, its leader, and their epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import partition_record
from ottla.protocol.messages.partition_record import PartitionRecord

if TYPE_CHECKING:
    from ottla.protocol.messages.partition_change_record import PartitionChangeRecord

NO_LEADER = -1
NO_LEADER_CHANGE = -2
"""The leader in a `PartitionChangeRecord` that changes neither the leader nor its epoch."""
NO_RECOVERY_CHANGE = -1
RECOVERED, RECOVERING = 0, 1
"""States of a leader (LeaderRecoveryState). An uncleanly elected leader is recovering until it reports that it has recovered."""
MIGRATING_DIRECTORY: Final = bytes(16)
UNASSIGNED_DIRECTORY: Final = bytes(15) + b"\1"
LOST_DIRECTORY: Final = bytes(15) + b"\2"
RESERVED_DIRECTORIES = 100
"""The number of lowest directory ids, which are reserved and name no directory (DirectoryId of Kafka)."""


class PartitionRegistration(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition (org.apache.kafka.metadata.PartitionRegistration).

    Most partitions of a topic, and with one broker most partitions of the cluster, have equal registrations and share one object.
    """

    replicas: tuple[int, ...]
    """Broker ids in the order of preference: the first replica is the preferred leader."""
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader: int
    leader_recovery_state: int = RECOVERED
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    """The log directory of each replica. Empty if no directory is known; Kafka then writes a list of `MIGRATING_DIRECTORY`."""
    elr: tuple[int, ...] = ()
    """The eligible leader replicas (KIP-966), which are no longer in sync but have all committed records."""
    last_known_elr: tuple[int, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def preferred_replica(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)

    def directory_of(self, replica: int) -> bytes:
        """Return the log directory of one of this partition's replicas."""
        at = self.replicas.index(replica)
        return self.directories[at] if self.directories else MIGRATING_DIRECTORY

    def to_record(self, topic_id: bytes, partition: int, version: int | None = None) -> LogRecord:
        """Encode this partition in the given version of its schema, or the newest."""
        message = PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )
        return metadata_record(partition_record, message, version)


def sole_replica(node_id: int, leader_epoch: int = 0) -> PartitionRegistration:
    """Return a partition whose only replica is ``node_id``, like every partition of a cluster of one broker."""
    node = (node_id,)
    return PartitionRegistration(replicas=node, isr=node, leader=node_id, leader_epoch=leader_epoch, partition_epoch=0)


def registered(record: PartitionRecord) -> PartitionRegistration:
    """Decode a registration. Raises DecodeError if replicas and directories do not match."""
    return PartitionRegistration(
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        leader=record.leader,
        leader_recovery_state=record.leader_recovery_state,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=_directories(tuple(record.directories), len(record.replicas)),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
    )


def merged(before: PartitionRegistration, change: PartitionChangeRecord) -> PartitionRegistration:
    """Apply a change to ``before``. Each change raises the partition epoch, and a change with a leader also the leader epoch.

    Raises DecodeError if replicas and directories do not match.
    """
    replicas = _changed(change.replicas, before.replicas)
    has_leader = change.leader != NO_LEADER_CHANGE
    directories = before.directories if change.directories is None else tuple(change.directories)
    recovery = change.leader_recovery_state
    return PartitionRegistration(
        replicas=replicas,
        isr=_changed(change.isr, before.isr),
        removing_replicas=_changed(change.removing_replicas, before.removing_replicas),
        adding_replicas=_changed(change.adding_replicas, before.adding_replicas),
        leader=change.leader if has_leader else before.leader,
        leader_recovery_state=before.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else recovery,
        leader_epoch=before.leader_epoch + has_leader,
        partition_epoch=before.partition_epoch + 1,
        directories=_directories(directories, len(replicas)),
        elr=_changed(change.eligible_leader_replicas, before.elr),
        last_known_elr=_changed(change.last_known_elr, before.last_known_elr),
    )


def changed(before: PartitionRegistration, **fields: Any) -> PartitionRegistration:
    """Replace some fields of ``before``, and raise the partition epoch."""
    return msgspec.structs.replace(before, partition_epoch=before.partition_epoch + 1, **fields)


def _changed(change: list[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
    return before if change is None else tuple(change)


def _directories(directories: tuple[bytes, ...], replica_count: int) -> tuple[bytes, ...]:
    if all(directory == MIGRATING_DIRECTORY for directory in directories):
        return ()
    if len(directories) != replica_count:
        raise DecodeError(f"the partition has {replica_count} replicas, but {len(directories)} directories")
    return directories


class AlikePartition(NamedTuple):
    """The last decoded partition record, split around the partition's number.

    Most partition records differ only in this number and the topic's id, and a topic may have 10,000 partitions. So an otherwise
    equal record is not decoded again. ``at`` is the position of the number; ``head`` and ``tail`` are the bytes around it, and
    ``tail`` starts with the topic's id.
    """

    at: int
    head: bytes
    tail: bytes
    topic_id: bytes
    partition: PartitionRegistration
