"""The actors of a simulation: clients that write with and without transactions, consume and produce, read, or administer."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.clients.consuming import Reader, committed_offsets
from ottla.simulation.clients.noting import Notes, placed
from ottla.simulation.clients.producing import Abortable, Batch, Fatal, ProducerFenced, SimulatedProducer
from ottla.simulation.clients.wire import LEADER_ELSEWHERE, Client, Disconnected, GaveUp
from ottla.simulation.history import Attempt, TriedRecord, Watched
from ottla.simulation.tasks import Steps

TRANSACTION_TIMEOUT_MS = 5_000
PACE_MS = 40.0
"""The mean pause between two transactions of an actor, in ms."""
ABORTS = 0.15
DAWDLES = 0.01
"""The share of transactions that are kept open beyond their timeout."""
TRIMMED = "trimmed"
"""The topic whose records the clients of the role ``admin`` delete."""
INPUT = "in"
GROUP_ID = "pipes"


@dataclass(slots=True)
class Setting:
    """State shared by all actors of a simulation. ``topics`` has the partition count of each topic. ``budget`` is the number of
    transactions that may still begin."""

    topics: dict[str, int]
    notes: Notes
    budget: int
    replicas: int = 1
    """The replication factor of topics."""
    is_over: bool = False
    taken_over: set[str] = field(default_factory=set)
    """Names of actors whose transactional id another process now uses. Never iterated: the order of a set is not repeatable."""


class Actor:
    """One client process. ``role`` is one of `ROLES`. ``transactional_id`` is only a name if the role uses no transactions."""

    def __init__(self, setting: Setting, client: Client, role: str, transactional_id: str, rng: random.Random) -> None:
        self.setting = setting
        self.client = client
        self.name = client.name
        self.role = role
        self.transactional_id = transactional_id
        self.rng = rng
        self._notes = setting.notes
        self._session = 0
        self._number = 0
        self._producer: SimulatedProducer | None = None
        self._reader: Reader | None = None
        self._unread: list[tuple[TopicPartition, int, str]] = []

    def steps(self) -> Steps[None]:
        return ROLES[self.role](self)

    def _is_done(self) -> bool:
        return self.setting.is_over or self.name in self.setting.taken_over

    def _say(self, line: str) -> None:
        self._notes.say(self.client.now_ms, f"{self.name}: {line}")

    # actors that write records

    def write(self) -> Steps[None]:
        """Write transactions one after the other. After an error that is fatal for a producer, continue with a new producer."""
        while not self._is_done() and self.setting.budget > 0:
            try:
                if self._producer is None:
                    yield from self._begin_session()
                yield from self._transaction()
            except ProducerFenced as error:
                self._say(f"fenced: {error}")
                self.client.note("a producer is fenced by its successor" if self._is_done() else "a producer is fenced")
                self._producer = None
            except (Abortable, Fatal, GaveUp, Disconnected) as error:
                self._say(f"{type(error).__name__}: {error}")
                self._producer = None
            yield self.rng.random() * 2 * PACE_MS

    def _begin_session(self) -> Steps[None]:
        producer = SimulatedProducer(self.client, None if self.role == "solo" else self.transactional_id, TRANSACTION_TIMEOUT_MS)
        yield from producer.initialise()
        self._producer = producer
        self._note_session(producer)
        if self.role == "pipe":
            yield from self._rewind()

    def _note_session(self, producer: SimulatedProducer) -> None:
        self._session += 1
        identity = (producer.identity.producer_id, producer.identity.epoch)
        self._notes.initialised(self.transactional_id, self.name, self._session, identity)
        self._note_identity(producer)
        self._say(f"session {self._session} is producer {identity[0]} epoch {identity[1]}")

    def _note_identity(self, producer: SimulatedProducer) -> None:
        if self.role != "solo":
            self._notes.identified(self.transactional_id, (producer.identity.producer_id, producer.identity.epoch))

    def _note_end(self, producer: SimulatedProducer, *, committed: bool) -> None:
        self._notes.acknowledged.append(((producer.identity.producer_id, producer.identity.epoch), committed))
        self._note_identity(producer)

    def _records(self) -> list[TriedRecord]:
        topics = {"feed": [INPUT], "solo": [TRIMMED, INPUT, "a"]}.get(self.role, ["a", "b"])
        rng, records = self.rng, []
        for at in range(rng.choice((1, 2, 3, 5, 8))):
            topic = rng.choice(topics)
            where = (topic, rng.randrange(self.setting.topics[topic]))
            records.append(TriedRecord(where, f"{self.name}/{self._session}/{self._number}/{at}"))
        return records

    def _outputs(self) -> tuple[list[TriedRecord], dict[TopicPartition, int]]:
        records, offsets = [], {}
        for at, (where, offset, _) in enumerate(self._unread):
            target = ("out", self.rng.randrange(self.setting.topics["out"]))
            records.append(TriedRecord(target, f"{self.name}/{self._session}/{self._number}/{at}", (*where, offset)))
            offsets[where] = offset + 1
        return records, offsets

    def _transaction(self) -> Steps[None]:
        producer = self._producer
        assert producer is not None
        offsets: dict[TopicPartition, int] = {}
        if self.role == "pipe":
            yield from self._read_input()
            if not self._unread:
                return
        self._number += 1
        if self.role != "solo":
            self.setting.budget -= 1
        if self.role == "pipe":
            records, offsets = self._outputs()
        else:
            records = self._records()
        attempt = Attempt(
            transactional_id=self.transactional_id,
            actor=self.name,
            session=self._session,
            number=self._number,
            records=records,
            group=GROUP_ID if offsets else None,
            offsets=offsets,
            is_transaction=self.role != "solo",
        )
        self._notes.attempt_begun(attempt)
        if self.role == "solo":
            yield from producer.send(self._batches(producer, records))
            self._notes.ended(attempt, committed=True)
            return
        yield from self._transact(producer, attempt)

    def _transact(self, producer: SimulatedProducer, attempt: Attempt) -> Steps[None]:
        aborts = self.rng.random() < ABORTS
        try:
            yield from producer.add_partitions(list(placed(attempt.records)))
            yield from producer.send(self._batches(producer, attempt.records))
            if attempt.offsets:
                yield from producer.send_offsets(GROUP_ID, attempt.offsets)
            if self.rng.random() < DAWDLES:
                self.client.note("a transaction is held open beyond its timeout")
                yield TRANSACTION_TIMEOUT_MS * 1.2
            if not aborts:
                self._notes.commit_asked(attempt)
                yield from producer.end(commit=True)
                self._note_end(producer, committed=True)
        except (Abortable, GaveUp) as error:
            self._say(f"{attempt.name}: {type(error).__name__}: {error}")
            if attempt.commit_asked_s is not None or self.rng.random() < 0.3:
                # Replace the producer if the outcome of a commit request is unknown, and sometimes after other errors, as some
                # applications do.
                raise Fatal(str(error)) from error
            aborts = True
        if aborts:
            yield from self._abort(producer, attempt)
        else:
            self._notes.ended(attempt, committed=True)
            self._say(f"{attempt.name} is committed: {len(attempt.records)} records")
            self._unread.clear()

    def _abort(self, producer: SimulatedProducer, attempt: Attempt) -> Steps[None]:
        try:
            yield from producer.end(commit=False)
        except Abortable as error:
            raise Fatal(str(error)) from error
        self._note_end(producer, committed=False)
        self._notes.ended(attempt, committed=False)
        self._say(f"{attempt.name} is aborted")
        if producer.has_unresolved:
            # Abandoned batches may still arrive at the broker. A newer epoch fences them.
            self.client.note("a new epoch after abandoned batches")
            yield from producer.initialise(again=True)
            self._note_session(producer)
        if self.role == "pipe":
            yield from self._rewind()

    def _batches(self, producer: SimulatedProducer, records: list[TriedRecord]) -> list[Batch]:
        """Return the records of each partition in one batch, or in several batches that are sent one after the other."""
        batches = []
        for where, mine in placed(records).items():
            at = 0
            while at < len(mine):
                count = self.rng.randrange(1, len(mine) - at + 1)
                batches.append(producer.batch(where, mine[at : at + count]))
                at += count
        return batches

    # actor that consumes and produces

    def _rewind(self) -> Steps[None]:
        """Continue reading at the group's committed offsets. These are final, because InitProducerId or EndTxn has ended all
        earlier transactions.
        """
        asked = self._notes.moment()
        inputs = [(INPUT, index) for index in range(self.setting.topics[INPUT])]
        share = [where for where in inputs if f"pipe-{where[1]}" == self.transactional_id]
        offsets = yield from committed_offsets(self.client, GROUP_ID, share)
        self._notes.offsets_read(GROUP_ID, asked, offsets)
        self._unread.clear()
        self._reader = Reader(self.client, self._notes, {where: offsets.get(where, 0) for where in share}, committed=True)

    def _read_input(self) -> Steps[None]:
        assert self._reader is not None
        if not self._unread:
            came = yield from self._reader.poll()
            self._unread = [(where, offset, value) for where, records in came.items() for offset, value in records]

    # actors that only read records

    def watch(self) -> Steps[None]:
        return self._read_all(committed=True)

    def watch_all(self) -> Steps[None]:
        return self._read_all(committed=False)

    def _read_all(self, *, committed: bool) -> Steps[None]:
        partitions = [(topic, index) for topic, count in self.setting.topics.items() for index in range(count)]
        reader = Reader(self.client, self._notes, dict.fromkeys(partitions, 0), committed=committed)
        reader.trimmed = frozenset({TRIMMED})
        watched: dict[TopicPartition, Watched] = {}
        while not self.setting.is_over:
            came = yield from reader.poll()
            for where, records in came.items():
                if where[0] != TRIMMED:
                    if where not in watched:
                        watched[where] = self._notes.watches(self.name, where, committed=committed)
                    watched[where].records += records
            yield self.rng.random() * 2 * PACE_MS

    # actor that deletes records and creates topics

    def administer(self) -> Steps[None]:
        """Delete existing records, and create topics."""
        made = 0
        while not self._is_done():
            yield 500 + self.rng.random() * 2_000
            try:
                if self.rng.random() < 0.7:
                    yield from self._delete_records()
                else:
                    made += 1
                    topic = CreatableTopic(
                        name=f"made-{self.name}-{made}", num_partitions=2, replication_factor=self.setting.replicas
                    )
                    yield from self.client.ask(self.client.any_broker(), CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
            except Disconnected:
                yield self.client.backoff(1)

    def _delete_records(self) -> Steps[None]:
        where = (TRIMMED, self.rng.randrange(self.setting.topics[TRIMMED]))
        known = [r.offset for a in self._notes.history.attempts if not a.is_transaction for r in a.records if r.where == where]
        before = max(known, default=-1) - self.rng.randrange(3)
        if before <= 0:
            return
        deletion = self._notes.deletion(where, before)
        partition = DeleteRecordsPartition(partition_index=where[1], offset=before)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=where[0], partitions=[partition])], timeout_ms=1_000)
        address = yield from self.client.leader(where)
        answer = yield from self.client.ask(address, request)
        code = Code(answer.topics[0].partitions[0].error_code)
        if code is Code.NONE:
            deletion.was_confirmed = True
            self.client.note("records are deleted")
        elif code in LEADER_ELSEWHERE:
            self.client.forget_leader(where)

    # actor that moves leaders

    def move(self) -> Steps[None]:
        """Change the preferred leader of random partitions, and have that leader elected."""
        partitions = [(topic, index) for topic, count in self.setting.topics.items() for index in range(count)]
        partitions += [(topic, index) for topic in (TRANSACTION_TOPIC, OFFSETS_TOPIC) for index in range(2)]
        while not self._is_done():
            yield 300 + self.rng.random() * 1_500
            topic, index = self.rng.choice(partitions)
            replicas = self.rng.sample(range(1, self.setting.replicas + 1), self.setting.replicas)
            moved = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
            elected = TopicPartitions(topic=topic, partitions=[index])
            try:
                broker = self.client.any_broker()
                yield from self.client.ask(broker, AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=1_000))
                yield 100
                answer = yield from self.client.ask(broker, ElectLeadersRequest(topic_partitions=[elected], timeout_ms=1_000))
                codes = [result.error_code for each in answer.replica_election_results for result in each.partition_result]
                if codes == [Code.NONE]:
                    self.client.note("a leader is moved")
            except Disconnected:
                yield self.client.backoff(1)


ROLES: dict[str, Callable[[Actor], Steps[None]]] = {
    "feed": Actor.write,
    "plain": Actor.write,
    "pipe": Actor.write,
    "solo": Actor.write,
    "watch": Actor.watch,
    "watch_all": Actor.watch_all,
    "admin": Actor.administer,
    "mover": Actor.move,
}


def create_topics(client: Client, topics: dict[str, int], configs: dict[str, str], replicas: int) -> Steps[None]:
    """Create topics, and retry until they exist."""
    settings = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
    wanted = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=replicas, configs=settings)
        for name, count in topics.items()
    ]
    while True:
        try:
            answer = yield from client.ask(client.any_broker(), CreateTopicsRequest(topics=wanted, timeout_ms=1_000))
        except Disconnected:
            yield client.backoff(1)
            continue
        if all(topic.error_code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS) for topic in answer.topics):
            return
        yield client.backoff(1)
