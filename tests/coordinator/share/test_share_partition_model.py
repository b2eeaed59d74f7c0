"""Random histories of a share partition, compared with a model of single records. A share coordinator stores the state.

Members acquire and acknowledge records, let locks time out, and leave. Some writes are refused, and the partition is reloaded
from the persisted state.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import msgspec
import pytest

from ottla.coordinator.share_state.acquisition import AbortedTransaction, AcquireRequest, FetchedBatch
from ottla.coordinator.share_state.changes import SharePartitionConfig
from ottla.coordinator.share_state.partition import Acknowledgement, ShareChange, SharePartition
from ottla.coordinator.share_state.requests import ShareStateConfig, StateWrite
from ottla.coordinator.share_state.states import OUTCOME, AcknowledgeType, RecordState
from ottla.protocol.errors import Code, KafkaError
from tests.coordinator.share.world import KEY, ShareStateWorld
from tests.support.levels import seeds

CONFIG = SharePartitionConfig(lock_duration_ms=1_000, max_delivery_count=4, max_record_locks=60)
MEMBERS = ("a", "b", "c")
ABORTED_PRODUCER = 77
S = RecordState


@dataclass(frozen=True)
class Record:
    state: RecordState = S.AVAILABLE
    count: int = 0
    member: str = ""
    deadline_ms: int = -1


class SharePartitionModel:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.config = msgspec.structs.replace(CONFIG, has_dead_letters=seed % 2 == 1)
        self.dead_lettered: set[int] = set()
        self.now_ms = 10_000
        self.log: list[FetchedBatch] = []
        self.aborted: list[AbortedTransaction] = []
        self.aborted_offsets: set[int] = set()
        # Offsets of records that the share partition must deliver.
        self.records: set[int] = set()
        self.model: dict[int, Record] = {}
        self.persisted: dict[int, tuple[int, RecordState]] = {}
        self.persisted_start = 0
        self.states = ShareStateWorld(config=ShareStateConfig(updates_per_snapshot=5), now_ms=self.now_ms)
        self.states.run(self.states.shard.initialize(KEY, 0, 0, 0))
        self.partition = self._loaded()

    def _loaded(self) -> SharePartition:
        state = self.states.run(self.states.shard.read(KEY, 0, self.now_ms))
        return SharePartition.load(state, 0, 0, self.config)

    def produce(self) -> None:
        """Append a data batch, or an aborted batch with its marker. Sometimes leave a gap before it, as compaction does."""
        end = self.log[-1].last_offset + 1 if self.log else 0
        first = end + self.rng.choice([0, 0, 0, 0, 3])
        last = first + self.rng.randrange(8)
        if self.rng.random() < 0.15:
            self.log.append(FetchedBatch(first, last, ABORTED_PRODUCER, is_transactional=True))
            self.log.append(FetchedBatch(last + 1, last + 1, ABORTED_PRODUCER, is_transactional=True, is_abort_marker=True))
            self.aborted.append(AbortedTransaction(ABORTED_PRODUCER, first))
            self.aborted_offsets.update(range(first, last + 1))
            return
        self.log.append(FetchedBatch(first, last))
        self.records.update(range(first, last + 1))

    def compact(self) -> None:
        """Remove a data batch from the log. Its records no longer have to be delivered."""
        data = [batch for batch in self.log[:-1] if not batch.is_transactional]
        if data:
            batch = self.rng.choice(data)
            self.log.remove(batch)
            self.records.difference_update(range(batch.first_offset, batch.last_offset + 1))

    def acquire(self) -> None:
        if not self.partition.can_acquire():
            return
        offset = self.partition.next_fetch_offset()
        batches = [batch for batch in self.log if batch.last_offset >= offset][: self.rng.randrange(1, 5)]
        member, limit = self.rng.choice(MEMBERS), self.rng.randrange(1, 12)
        is_limit = self.rng.random() < 0.4
        request = AcquireRequest(member, offset, batches, limit, self.rng.randrange(1, 6), is_limit, self.aborted)
        acquired = self.partition.acquire(request, self.now_ms)
        given = [o for first, last, _ in acquired for o in range(first, last + 1)]
        assert len(given) == len(set(given)), "each record is acquired once"
        assert given == sorted(given)
        assert not is_limit or len(given) <= limit
        for first, last, count in acquired:
            for o in range(first, last + 1):
                before = self.model.get(o, Record())
                assert before.state is S.AVAILABLE, f"acquired record {o} was {before.state.name}"
                assert before.count + 1 == count <= CONFIG.max_delivery_count
                assert not self.is_aborted(o), f"acquired record {o} belongs to an aborted transaction"
                self.model[o] = Record(S.ACQUIRED, count, member, self.now_ms + CONFIG.lock_duration_ms)
        if batches:
            for o in range(offset, batches[0].first_offset):
                if o in self.model and self.model[o].state is S.AVAILABLE:
                    self.model[o] = replace(self.model[o], state=S.ARCHIVED)

    def is_aborted(self, offset: int) -> bool:
        return offset in self.aborted_offsets

    def held(self, member: str) -> list[int]:
        return sorted(o for o, record in self.model.items() if record.state is S.ACQUIRED and record.member == member)

    def acknowledge(self, member: str, accept_all: bool = False) -> None:
        held = self.held(member)
        if not held:
            return
        acknowledgements: list[Acknowledgement] = []
        moves: dict[int, AcknowledgeType] = {}
        at = 0 if accept_all else self.rng.randrange(len(held))
        while at < len(held):
            run = [held[at]]
            while at + 1 < len(held) and held[at + 1] == run[-1] + 1 and (accept_all or self.rng.random() < 0.9):
                at += 1
                run.append(held[at])
            at += 1 if accept_all else self.rng.randrange(1, 4)
            types = [AcknowledgeType.ACCEPT if accept_all else self.rng.choice(list(AcknowledgeType)) for _ in run]
            if accept_all or self.rng.random() < 0.5:
                types = types[:1]
            acknowledgements.append(Acknowledgement(run[0], run[-1], types))
            moves.update(zip(run, types if len(types) > 1 else types * len(run), strict=True))
        change = self.partition.acknowledge(member, acknowledgements, self.now_ms)
        if not self.carry_out(change):
            return
        for o, kind in moves.items():
            record = self.model[o]
            if kind is AcknowledgeType.RENEW:
                self.model[o] = replace(record, deadline_ms=self.now_ms + CONFIG.lock_duration_ms)
            else:
                self.model[o] = self.ended(record, kind)

    def ended(self, record: Record, kind: AcknowledgeType) -> Record:
        state = OUTCOME[kind]
        if kind is AcknowledgeType.REJECT or (state is S.AVAILABLE and record.count >= CONFIG.max_delivery_count):
            state = S.ARCHIVING if self.config.has_dead_letters else S.ARCHIVED
        return Record(state, record.count)

    def dead_letter_one(self) -> None:
        """Write the dead letters of some adjacent records. A dead letter is written again only if its write was not persisted."""
        letters = self.partition.dead_letters()
        if not letters:
            return
        letter = self.rng.choice(letters)
        last = self.rng.randrange(letter.first_offset, letter.last_offset + 1)
        change = self.partition.dead_lettered(letter.first_offset, last)
        assert not change.dead_letters
        if self.carry_out(change):
            for o in range(letter.first_offset, last + 1):
                assert o not in self.dead_lettered
                self.dead_lettered.add(o)
                self.model[o] = Record(S.ARCHIVED, letter.delivery_count)

    def acknowledge_what_is_not_held(self) -> None:
        member = self.rng.choice(MEMBERS)
        others = [o for o, record in self.model.items() if o >= self.partition.start_offset and record.member != member]
        if not others:
            return
        offset = self.rng.choice(others)
        mine = [Acknowledgement(o, o, [1]) for o in self.held(member)[:2]]
        before = self.partition.statuses()
        with pytest.raises(KafkaError) as raised:
            self.partition.acknowledge(member, [*mine, Acknowledgement(offset, offset, [1])], self.now_ms)
        assert raised.value.code in (Code.INVALID_RECORD_STATE, Code.INVALID_REQUEST)
        assert self.partition.statuses() == before, "the valid part of a refused acknowledgement is not applied"

    def release(self) -> None:
        member = self.rng.choice(MEMBERS)
        change = self.partition.release(member)
        if self.carry_out(change):
            for o in self.held(member):
                self.model[o] = self.ended(self.model[o], AcknowledgeType.RELEASE)

    def time_out(self) -> None:
        self.now_ms += self.rng.randrange(700)
        over = [o for o, r in self.model.items() if r.state is S.ACQUIRED and r.deadline_ms <= self.now_ms]
        if over:
            assert self.partition.has_timed_out(self.now_ms)
        change = self.partition.time_out(self.now_ms)
        if self.rng.random() < 0.8:
            self.persist(change.write)
        # A lock timeout is applied even if the write of its state was refused.
        self.partition.apply(change)
        for o in over:
            self.model[o] = self.ended(self.model[o], AcknowledgeType.RELEASE)

    def carry_out(self, change: ShareChange) -> bool:
        """Persist and apply a change. In 30 % of the cases its write is refused, which changes nothing.

        Returns whether the change was applied.
        """
        if change.write is not None and self.rng.random() < 0.3:
            return False
        self.persist(change.write)
        self.partition.apply(change)
        return True

    def persist(self, write: StateWrite | None) -> None:
        if write is None:
            return
        self.states.run(self.states.shard.write(KEY, write, self.now_ms))
        assert write.start_offset == self.partition.start_offset
        self.persisted_start = max(self.persisted_start, write.start_offset)
        for first, last, state, count in write.state_batches:
            for o in range(first, last + 1):
                self.persisted[o] = max(self.persisted.get(o, (0, S.AVAILABLE)), (count, RecordState(state)))

    def reload(self) -> None:
        """Reload the partition. All locks are lost, and each record has its last persisted state."""
        self.partition = self._loaded()
        assert self.partition.start_offset >= self.persisted_start
        below = {o: record for o, record in self.model.items() if o < self.persisted_start}
        written = {o: Record(state, count) for o, (count, state) in self.persisted.items() if o >= self.persisted_start}
        self.model = below | written

    def check(self) -> None:
        partition = self.partition
        in_flight = {o: status for first, last, status in partition.statuses() for o in range(first, last + 1)}
        for o, record in self.model.items():
            status = in_flight.get(o)
            if o < partition.start_offset:
                done = record.state in (S.ACKNOWLEDGED, S.ARCHIVED) or self.is_aborted(o)
                assert done, f"record {o} is {record.state.name} but below the start offset"
            elif status is not None and not self.is_aborted(o):
                assert (status.state, status.delivery_count, status.member_id) == (record.state, record.count, record.member), o
                assert status.deadline_ms == record.deadline_ms
        for o in range(partition.start_offset, partition.end_offset):
            assert o in in_flight or o not in self.records or not in_flight, f"record {o} is lost"
        available = [o for o, status in in_flight.items() if status.state is S.AVAILABLE and o >= partition.start_offset]
        behind = partition.end_offset + 1 if in_flight else partition.end_offset
        assert partition.next_fetch_offset() == min(available, default=behind)
        finished = [o for o, status in in_flight.items() if status.is_terminal and o >= partition.start_offset]
        assert partition.delivery_complete_count == len(finished)


@pytest.mark.parametrize("seed", seeds(24, in_check=8))
def test_random_share_acknowledgements_deliver_every_record_like_the_model(seed: int) -> None:
    world = SharePartitionModel(seed)
    rng = world.rng
    commands = [
        world.produce,
        world.acquire,
        world.acquire,
        world.acquire,
        lambda: world.acknowledge(rng.choice(MEMBERS)),
        lambda: world.acknowledge(rng.choice(MEMBERS)),
        world.acknowledge_what_is_not_held,
        world.release,
        world.time_out,
        world.dead_letter_one,
    ]
    for _ in range(200):
        rng.choice(commands)()
        if rng.random() < 0.02:
            world.reload()
        if rng.random() < 0.02:
            world.compact()
        world.check()
    _drain(world)


def _drain(world: SharePartitionModel) -> None:
    """Accept all records, and check that none is lost and that the start offset reaches the end of the log."""
    end = world.log[-1].last_offset if world.log else -1
    for _ in range(2_000):
        if world.partition.start_offset > end:
            break
        world.acquire()
        for member in MEMBERS:
            world.acknowledge(member, accept_all=True)
        world.time_out()
        world.dead_letter_one()
        world.check()
    assert world.partition.start_offset > end
    for o in world.records:
        assert world.model[o].state in (S.ACKNOWLEDGED, S.ARCHIVED), f"record {o} is not finished"
