"""Elects leaders, and builds the record of every change of a partition (PartitionChangeBuilder of Kafka)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from ottla.coordinator.controller import policies
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.metadata_records import DIRECTORY_ASSIGNMENT, metadata_record, record_version
from ottla.coordinator.metadata.partition_registration import (
    MIGRATING_DIRECTORY,
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERING,
    PartitionRegistration,
)
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages import partition_change_record
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord

NO_BROKER = -1
NO_EPOCH_ON_SHRINK = 12
"""Level 3.6-IV0 of ``metadata.version``. From this level on, shrinking the in-sync set does not raise the leader epoch."""
PREFERRED_ELECTION, UNCLEAN_ELECTION = 0, 1
"""Types of election in an ElectLeaders request."""


class Election(Enum):
    PREFERRED = "preferred"
    """Elect the first replica if it may lead, else elect like `ONLINE`."""
    ONLINE = "online"
    """Keep the current leader if it may lead, else elect the first replica that may lead."""
    UNCLEAN = "unclean"
    """Like `ONLINE`, but if no replica may lead, elect a live replica although it may lack committed records."""


class PartitionChange(msgspec.Struct, kw_only=True):
    """A pending change of one partition. `build` returns the record, or None if nothing changes."""

    state: ClusterState
    topic: Topic
    index: int
    may_lead: Callable[[int], bool]
    """Whether a broker is alive and may become a leader. Called only for replicas of this partition."""
    election: Election = Election.ONLINE
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    recovery_state: int = NO_RECOVERY_CHANGE
    unclean_shutdown: int = NO_BROKER
    """A broker that stopped uncleanly. It may have lost records, so it is no longer an eligible leader replica."""
    begun_anew: int = NO_BROKER
    """A broker whose replica lost its records with its directory, so that it does not count as last known leader."""
    directories: dict[int, bytes] = msgspec.field(default_factory=dict)
    """New log directories by broker id, where they differ from the registration."""
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def before(self) -> PartitionRegistration:
        return self.topic.partitions[self.index]

    def build(self) -> PartitionChangeRecord | None:
        before = self.before
        change = PartitionChangeRecord(partition_id=self.index, topic_id=self.topic.topic_id)
        self._complete_reassignment()
        self._move_to_eligible()
        self._elect(change)
        if change.leader == NO_LEADER_CHANGE and not set(before.replicas) <= set(self.replicas):
            # A removed replica must stop fetching. A new leader epoch fences its fetches.
            change.leader = before.leader
        self._note_eligible(change)
        # Without KIP-966 the in-sync set never becomes empty: it keeps its last member, the only replica that may lead again.
        if change.isr is None and self.isr != before.isr and (self.isr or self._has_elr):
            change.isr = list(self.isr)
        shrinks = change.isr is not None and not set(before.isr) <= set(change.isr)
        if shrinks and change.leader == NO_LEADER_CHANGE and self.state.metadata_version < NO_EPOCH_ON_SHRINK:
            change.leader = before.leader
        self._note_last_known_leader(change)
        self._note_assignment(change)
        if self.recovery_state not in (NO_RECOVERY_CHANGE, before.leader_recovery_state):
            change.leader_recovery_state = self.recovery_state
        return None if change == PartitionChangeRecord(partition_id=self.index, topic_id=self.topic.topic_id) else change

    @property
    def _has_elr(self) -> bool:
        return policies.has_eligible_leader_replicas(self.state)

    def _complete_reassignment(self) -> None:
        """End a reassignment if all remaining replicas are in sync (PartitionReassignmentReplicas of Kafka)."""
        if not (self.removing or self.adding):
            return
        isr = tuple(r for r in self.isr if r not in self.removing)
        replicas = tuple(r for r in self.replicas if r not in self.removing)
        if isr and replicas and set(replicas) <= set(isr):
            self.isr, self.replicas, self.removing, self.adding = isr, replicas, (), ()

    def _move_to_eligible(self) -> None:
        """While the in-sync set is smaller than ``min.insync.replicas``, no record is committed. So replicas that leave the set
        stay eligible as leaders."""
        if not self._has_elr:
            return
        if len(self.isr) >= policies.effective_min_insync_replicas(self.state, self.topic):
            self.elr = self.last_known_elr = ()
            return
        candidates = {*self.elr, *self.before.isr}
        self.elr = tuple(sorted(r for r in candidates if r not in self.isr and r != self.unclean_shutdown))
        candidates |= set(self.before.last_known_elr)
        self.last_known_elr = tuple(sorted(r for r in candidates if r not in self.isr and r not in self.elr))

    # electing the leader

    def _elect(self, change: PartitionChangeRecord) -> None:
        leader, is_unclean = self._elected()
        before = self.before
        if leader == before.leader:
            return
        if leader in self.elr:
            self.isr, self.elr = (leader,), tuple(r for r in self.elr if r != leader)
        change.leader = leader
        if is_unclean:
            change.isr = [leader]
            if before.leader_recovery_state != RECOVERING:
                change.leader_recovery_state = RECOVERING

    def _elected(self) -> tuple[int, bool]:
        own = self.before.leader
        order = [*self.replicas[:1], own, *self.replicas[1:]] if self.election is Election.PREFERRED else [own, *self.replicas]
        for replica in order:
            if self._may_lead_cleanly(replica):
                return replica, False
        last_known = self._last_known_leader()
        if last_known is not None:
            return last_known, True
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self.may_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _may_lead_cleanly(self, replica: int) -> bool:
        is_whole = replica in self.isr or (not self.isr and replica in self.elr)
        return is_whole and self.may_lead(replica)

    def _last_known_leader(self) -> int | None:
        """Return the last leader if no replica is known to have all committed records: the last leader lost the fewest
        records (KIP-966)."""
        known = self._last_known
        if not self._has_elr or self.elr or self.isr or len(known) != 1:
            return None
        return known[0] if known[0] in self.before.replicas and self.may_lead(known[0]) else None

    @property
    def _last_known(self) -> list[int]:
        return [replica for replica in self.before.last_known_elr if replica != self.begun_anew]

    # setting the fields of the partition's record

    def _note_eligible(self, change: PartitionChangeRecord) -> None:
        is_clean = change.isr is None
        if not is_clean or not self._has_elr:
            self.elr = ()
        if self.elr != self.before.elr:
            change.eligible_leader_replicas = list(self.elr)

    def _note_last_known_leader(self, change: PartitionChangeRecord) -> None:
        before = self.before
        if not self._has_elr:
            return
        if change.isr == [] and before.last_known_elr != (before.leader,):
            change.last_known_elr = [before.leader]
        elif before.last_known_elr and (change.leader >= 0 or (before.has_leader and change.leader != NO_LEADER)):
            change.last_known_elr = []
        elif len(self._last_known) < len(before.last_known_elr):
            change.last_known_elr = self._last_known

    def _note_assignment(self, change: PartitionChangeRecord) -> None:
        before = self.before
        if self.state.metadata_version >= DIRECTORY_ASSIGNMENT:
            known = dict(zip(before.replicas, before.directories, strict=False))
            known = {replica: known.get(replica, MIGRATING_DIRECTORY) for replica in before.replicas} | self.directories
            directories = [known.get(r) or policies.default_directory(self.state, r) for r in self.replicas]
            if directories != [before.directory_of(r) for r in before.replicas]:
                change.directories = directories
        if self.replicas != before.replicas:
            change.replicas = list(self.replicas)
        if self.removing != before.removing_replicas:
            change.removing_replicas = list(self.removing)
        if self.adding != before.adding_replicas:
            change.adding_replicas = list(self.adding)


def change_of(
    state: ClusterState,
    topic: Topic,
    index: int,
    may_lead: Callable[[int], bool] | None = None,
    directories: Mapping[int, bytes] | None = None,
    **fields: object,
) -> PartitionChange:
    """Return a `PartitionChange` that changes nothing yet, except ``fields`` and ``directories``. By default every active broker
    with an online directory may lead."""
    before, moved = topic.partitions[index], dict(directories or {})
    alive = may_lead or (lambda broker_id: policies.is_active(state, broker_id))
    asked = {
        "isr": before.isr,
        "replicas": before.replicas,
        "removing": before.removing_replicas,
        "adding": before.adding_replicas,
        "elr": before.elr,
        "last_known_elr": before.last_known_elr,
        "directories": moved,
        "may_lead": lambda r: r in before.replicas and alive(r) and policies.has_online_directory(state, before, r, moved.get(r)),
        **fields,
    }
    return PartitionChange(state=state, topic=topic, index=index, **asked)  # type: ignore[arg-type]


def change_record(state: ClusterState, change: PartitionChangeRecord) -> LogRecord:
    return metadata_record(partition_change_record, change, record_version(partition_change_record, state.metadata_version))


def usual_election(state: ClusterState, topic: Topic) -> Election:
    """Return `UNCLEAN` if the topic allows unclean elections, else `ONLINE`."""
    return Election.UNCLEAN if policies.allows_unclean_elections(state, topic.name) else Election.ONLINE


# changing partitions when a broker's state changes


Where = tuple[Topic, int]


def in_sync_with(state: ClusterState, broker_id: int) -> Iterator[Where]:
    """Yield the partitions that have the broker in their in-sync set, in a fixed order: by topic, then by number."""
    return _where(state, lambda partition: broker_id in partition.isr)


def eligible_with(state: ClusterState, broker_id: int) -> Iterator[Where]:
    return _where(state, lambda partition: broker_id in partition.elr)


def leaderless(state: ClusterState) -> Iterator[Where]:
    return _where(state, lambda partition: not partition.has_leader)


def leads_any(state: ClusterState, broker_id: int) -> bool:
    return any(True for _ in _where(state, lambda partition: partition.leader == broker_id))


def _where(state: ClusterState, of: Callable[[PartitionRegistration], bool]) -> Iterator[Where]:
    for topic in state.topics.values():
        last, answer = None, False
        for index, partition in enumerate(topic.partitions):
            # Consecutive partitions that share one object have the same answer, so call ``of`` only once for them.
            if partition is not last:
                last, answer = partition, of(partition)
            if answer:
                yield topic, index


def leader_and_isr_changes(
    state: ClusterState, where: Iterable[Where], *, without: int = NO_BROKER, also: int = NO_BROKER, unclean: int = NO_BROKER
) -> list[LogRecord]:
    """Return the changes of partitions when a broker stops, starts, or has stopped uncleanly.

    Brokers ``without`` and ``unclean`` leave the in-sync set and no longer lead. Broker ``also`` may lead although it is not active
    yet.
    """

    def may_lead(broker_id: int) -> bool:
        return broker_id not in (without, unclean) and (broker_id == also or policies.is_active(state, broker_id))

    records = []
    for topic, index in where:
        isr = tuple(r for r in topic.partitions[index].isr if r not in (without, unclean))
        election = usual_election(state, topic)
        change = change_of(state, topic, index, may_lead, isr=isr, election=election, unclean_shutdown=unclean).build()
        if change is not None:
            records.append(change_record(state, change))
    return records


# electing leaders on request or periodically


def elect_leaders(
    state: ClusterState, election_type: int, asked: Iterable[tuple[str, Iterable[int]]] | None
) -> Result[dict[str, dict[int, KafkaError | None]]]:
    """Elect leaders of the partitions in ``asked``, or of all partitions. The response has an error or None for each partition.

    With ``asked`` None the response omits partitions that need no election. Raises INVALID_REQUEST for an unknown type.
    """
    if election_type not in (PREFERRED_ELECTION, UNCLEAN_ELECTION):
        raise KafkaError(Code.INVALID_REQUEST, f"Unknown election type {election_type}")
    named = asked if asked is not None else [(t.name, range(t.partition_count)) for t in state.topics.values()]
    records: list[LogRecord] = []
    answers: dict[str, dict[int, KafkaError | None]] = {}
    for name, indexes in named:
        of_topic = answers.setdefault(name, {})
        for index in indexes:
            if index in of_topic:
                # The request lists the partition twice. The first entry's record is not replayed yet, so the second entry is
                # ignored.
                continue
            error: KafkaError | None = None
            try:
                records.append(_elected_record(state, election_type, name, index))
            except KafkaError as refused:
                error = refused
            if asked is not None or error is None or error.code is not Code.ELECTION_NOT_NEEDED:
                of_topic[index] = error
    return Result(answers, records)


def _elected_record(state: ClusterState, election_type: int, name: str, index: int) -> LogRecord:
    topic = state.topics.get(name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < topic.partition_count:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    partition, is_preferred = topic.partitions[index], election_type == PREFERRED_ELECTION
    if partition.leader == partition.preferred_replica if is_preferred else partition.has_leader:
        raise KafkaError(Code.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    election = Election.PREFERRED if is_preferred else Election.UNCLEAN
    change = change_of(state, topic, index, election=election).build()
    if change is None and is_preferred:
        raise KafkaError(Code.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    if change is None:
        raise KafkaError(Code.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")
    return change_record(state, change)


def rebalance_leaders(state: ClusterState, max_elections: int) -> Result[bool]:
    """Move leaderships back to preferred leaders. The response is True if ``max_elections`` leaders were elected,
    and perhaps more are needed."""
    unbalanced = _where(state, lambda partition: partition.leader != partition.preferred_replica)
    return _elect_some(state, unbalanced, lambda _: Election.PREFERRED, max_elections)


def elect_unclean_leaders(state: ClusterState, max_elections: int) -> Result[bool]:
    """Elect leaders of leaderless partitions, uncleanly if the topic allows that. The response is True if ``max_elections``
    leaders were elected."""
    return _elect_some(state, leaderless(state), lambda topic: usual_election(state, topic), max_elections)


def _elect_some(
    state: ClusterState, where: Iterable[Where], election_of: Callable[[Topic], Election], max_elections: int
) -> Result[bool]:
    records: list[LogRecord] = []
    for topic, index in where:
        if len(records) >= max_elections:
            break
        change = change_of(state, topic, index, election=election_of(topic)).build()
        if change is not None:
            records.append(change_record(state, change))
    return Result(len(records) >= max_elections, records)
