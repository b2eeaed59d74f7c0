"""Places replicas of new partitions: striped over racks (StripedReplicaPlacer of Kafka), or as a client assigns them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.coordinator.controller import policies
from ottla.coordinator.metadata.broker_registration import BrokerRegistration
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.metadata_records import DIRECTORY_ASSIGNMENT
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.protocol.errors import Code, KafkaError

Replicas = tuple[int, ...]
RandomBelow = Callable[[int], int]
"""A function that returns a random integer from 0 to below its argument."""


def place(state: ClusterState, partition_count: int, replication_factor: int, random_below: RandomBelow) -> list[Replicas]:
    """Return replicas of new partitions. Each partition starts in the next rack, with that rack's next broker.

    So leaders and replicas are spread evenly, no rack gets a second replica of a partition before each rack has a replica, and the
    first replica is on an unfenced broker. Raises INVALID_REPLICATION_FACTOR.
    """
    usable = [b for b in state.registrations.brokers.values() if not (b.is_in_controlled_shutdown or _is_cordoned(b))]
    if replication_factor <= 0:
        reason = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        raise KafkaError(Code.INVALID_REPLICATION_FACTOR, reason)
    if all(broker.is_fenced for broker in usable):
        reason = "All brokers are currently fenced or have all their log directories cordoned."
        raise KafkaError(Code.INVALID_REPLICATION_FACTOR, reason)

    if replication_factor > len(usable):
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} broker(s) are "
            "registered or some brokers have all their log directories cordoned.",
        )
    racks = _Racks([(b.broker_id, b.rack, b.is_fenced) for b in usable], random_below)
    return [racks.place(replication_factor) for _ in range(partition_count)]


def _is_cordoned(broker: BrokerRegistration) -> bool:
    return bool(broker.directories) and set(broker.directories) <= set(broker.cordoned_directories)


def _shuffle(items: list[Any], random_below: RandomBelow) -> None:
    for at in range(len(items) - 1, 0, -1):
        other = random_below(at + 1)
        items[at], items[other] = items[other], items[at]


class _Stripe:
    """The fenced or the unfenced brokers of a rack. Each new partition takes them in turn, starting one broker later than the
    previous partition."""

    def __init__(self, brokers: Iterable[int], random_below: RandomBelow) -> None:
        self.brokers = sorted(brokers)
        self._offset = random_below(len(self.brokers)) if self.brokers else 0
        self._turn = -1
        self._taken = 0

    def shuffle(self, random_below: RandomBelow) -> None:
        _shuffle(self.brokers, random_below)

    def next(self, turn: int) -> int | None:
        """Return the next broker for a new partition, or None if the partition has all. ``turn``: the partition's number."""
        if not self.brokers:
            return None
        if self._turn != turn:
            self._turn, self._taken = turn, 0
            self._offset = (self._offset + 1) % len(self.brokers)
        if self._taken == len(self.brokers):
            return None
        broker = self.brokers[(self._taken + self._offset) % len(self.brokers)]
        self._taken += 1
        return broker


class _Racks:
    def __init__(self, brokers: Sequence[tuple[int, str | None, bool]], random_below: RandomBelow) -> None:
        self._random_below = random_below
        names = sorted({rack for _, rack, _ in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._stripes = [
            tuple(_Stripe([b for b, r, f in brokers if r == name and f is fenced], random_below) for fenced in (False, True))
            for name in names
        ]
        self._unfenced_count = sum(not fenced for _, _, fenced in brokers)
        self._turn = 0
        self._offset = random_below(len(self._stripes))

    def place(self, replication_factor: int) -> Replicas:
        if self._turn == self._unfenced_count > 1:
            # Each unfenced broker now leads one new partition. Shuffle the brokers, so that leaders do not always have the same
            # followers.
            _shuffle(self._stripes, self._random_below)
            for stripes in self._stripes:
                for stripe in stripes:
                    stripe.shuffle(self._random_below)
            self._turn = 0
        count = len(self._stripes)
        order = [(self._offset + n) % count for n in range(count)]
        replicas: list[int] = []
        for first in order:
            leader = self._stripes[first][0].next(self._turn)
            if leader is not None:
                replicas.append(leader)
                break
        # The leader's rack already has a replica, so skip that rack once.
        is_passed = False
        while len(replicas) < replication_factor:
            for rack in order:
                if rack == first and not is_passed:
                    is_passed = True
                    continue
                broker = self._next(rack)
                if broker is not None:
                    replicas.append(broker)
                    if len(replicas) == replication_factor:
                        break
        self._turn += 1
        self._offset = (self._offset + 1) % count
        return tuple(replicas)

    def _next(self, rack: int) -> int | None:
        unfenced, fenced = self._stripes[rack]
        broker = unfenced.next(self._turn)
        return fenced.next(self._turn) if broker is None else broker


def check_assignment(state: ClusterState, replicas: Sequence[int], replication_factor: int | None = None) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT for replicas that a client may not assign."""
    code = Code.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        raise KafkaError(code, "The manual partition assignment includes an empty replica list.")
    for broker in sorted(replicas):
        if broker not in state.registrations.brokers:
            raise KafkaError(code, f"The manual partition assignment includes broker {broker}, but no such broker is registered.")
        if replicas.count(broker) > 1:
            raise KafkaError(code, f"The manual partition assignment includes the broker {broker} more than once.")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise KafkaError(
            code,
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {replication_factor} replica(s).",
        )


def assigned(
    state: ClusterState, assignments: Mapping[int, Replicas], first: int = 0, replication_factor: int | None = None
) -> list[PartitionRegistration]:
    """Return new partitions, numbered from ``first``, with the replicas that a client assigns. All must have equally many replicas.

    Raises INVALID_REPLICA_ASSIGNMENT.
    """
    partitions: list[PartitionRegistration] = []
    for index, replicas in sorted(assignments.items()):
        if index != first + len(partitions):
            raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
        check_assignment(state, replicas, replication_factor)
        replication_factor = len(replicas)
        if not any(policies.is_active(state, broker) for broker in replicas):
            raise KafkaError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled "
                "shutdown.",
            )
        partitions.append(new_partition(state, replicas))
    return partitions


def placed(
    state: ClusterState, partition_count: int, replication_factor: int, random_below: RandomBelow
) -> list[PartitionRegistration]:
    """Return new partitions with the replicas that `place` chooses. Raises INVALID_REPLICATION_FACTOR."""
    return [new_partition(state, replicas) for replicas in place(state, partition_count, replication_factor, random_below)]


def new_partition(state: ClusterState, replicas: Replicas) -> PartitionRegistration:
    """Return a partition whose active replicas are in sync from the start. At least one replica must be active; the first active
    replica leads."""
    isr = tuple(broker for broker in replicas if policies.is_active(state, broker))
    directories: tuple[bytes, ...] = ()
    if state.metadata_version >= DIRECTORY_ASSIGNMENT:
        directories = tuple(policies.default_directory(state, broker) for broker in replicas)
        if not any(map(any, directories)):
            directories = ()
    return PartitionRegistration(
        replicas=replicas, isr=isr, leader=isr[0], leader_epoch=0, partition_epoch=0, directories=directories
    )
