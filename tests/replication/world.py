"""A partition with several replicas in a random history, determined by a seed.

It consists of logs in memory, the decision logic of leader and followers, a controller and a network. Messages are delayed,
reordered or lost. Brokers crash and lose the unsynced end of their log, restart with a new broker epoch, and for a while still act
as leader after another broker was elected. After each step `ReplicaWorld.check` compares every log with the committed records.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.coordinator.replication import leader as leading
from ottla.coordinator.replication.follower import (
    Append,
    AskOffsets,
    FetchedPartition,
    FetchState,
    FollowerLog,
    Following,
    StartAt,
    Truncate,
)
from ottla.coordinator.replication.follower import taken_over as taken_over_from
from ottla.coordinator.replication.in_sync import InSync
from ottla.coordinator.replication.leader import ACKS_ALL, EpochEnd, Leader, new_leader
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.markers import read_marker
from ottla.protocol.records import BatchHeader, EndTxnMarker, build_batch, check_produced
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.following import append_as_follower
from ottla.storage.log import Log
from ottla.storage.producer_state import ProducerState
from ottla.storage.reading import read
from ottla.storage.rebuilding import reload_producers
from ottla.storage.recovery import open_log
from ottla.storage.segment import LOG_SUFFIX
from ottla.storage.transaction_history import TransactionHistory
from ottla.storage.truncation import truncate_fully_and_start_at, truncate_to
from tests.support.logs import stored

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100)
LAG_MS = 10_000
PRODUCERS = 3
DIRECTORY = "/t-0"
MAX_MESSAGES = 12
NO_LEADER = -1


class Anomaly(AssertionError):
    """Raised when a guarantee of replication is violated."""


def held(condition: object, what: str) -> None:
    if not condition:
        raise Anomaly(what)


@dataclass(slots=True)
class Controller:
    """Leader, in-sync replicas and live brokers, as in the metadata log."""

    isr: frozenset[int]
    leader: int
    live: dict[int, int]
    leader_epoch: int = 0
    partition_epoch: int = 0


@dataclass(slots=True)
class Node:
    """A broker: its disk, its log since the last restart, and its current role as leader or follower."""

    id: int
    fs: MemoryFilesystem = field(default_factory=MemoryFilesystem)
    log: Log = field(init=False)
    broker_epoch: int = 0
    is_alive: bool = True
    leader: Leader | None = None
    following: Following | None = None
    seen_epoch: int = -1
    synced: int = 0
    checkpoint: int = 0
    shown: int = 0
    checked: object = None
    live: dict[int, int] = field(default_factory=dict)

    def open(self, now_ms: int) -> None:
        self.log = Log(self.fs, DIRECTORY, "t", 0, CONFIG, bytes(16))
        open_log(self.log, now_ms, clean=False, recovery_point=self.synced, high_watermark=self.checkpoint)
        reload_producers(self.log, now_ms)
        self.shown = 0

    def view(self) -> FollowerLog:
        log = self.log
        return FollowerLog(start_offset=log.log_start_offset, end_offset=log.log_end_offset, high_watermark=log.high_watermark)


@dataclass(slots=True)
class Acknowledgement:
    """A batch whose producer waits for an acknowledgement."""

    node: Node
    leader: Leader
    end_offset: int
    base_offset: int
    raw: bytes


class ReplicaWorld:
    def __init__(self, seed: int, brokers: int = 3, *, elects_out_of_sync: bool = False, names_lives: bool = True) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 1_000_000
        self.nodes = [Node(i) for i in range(brokers)]
        self.next_broker_epoch = 100
        self.elects_out_of_sync = elects_out_of_sync
        self.names_lives = names_lives
        self.messages: list[Callable[[], None]] = []
        self.committed: dict[int, bytes] = {}
        self.waiting: list[Acknowledgement] = []
        self.acknowledged: dict[int, bytes] = {}
        self.seen: dict[str, int] = {}
        self.checked: object = None
        for node in self.nodes:
            node.broker_epoch = self.next_epoch()
            node.open(self.now_ms)
        live = {node.id: node.broker_epoch for node in self.nodes}
        self.controller = Controller(frozenset(live), 0, live)
        for node in self.nodes:
            self.learn(node)

    def next_epoch(self) -> int:
        self.next_broker_epoch += 1
        return self.next_broker_epoch

    def count(self, what: str) -> None:
        self.seen[what] = self.seen.get(what, 0) + 1

    def step(self) -> None:
        rng = self.rng
        self.now_ms += rng.randrange(200)
        roll = rng.random()
        alive = [node for node in self.nodes if node.is_alive]
        if roll < 0.40 and self.messages:
            self.messages.pop(rng.randrange(len(self.messages)))()
        elif roll < 0.68 and alive:
            self.fetch(rng.choice(alive))
        elif roll < 0.82:
            self.produce(rng.choice(alive) if alive else None)
        elif roll < 0.93 and alive:
            self.learn(rng.choice(alive))
        elif roll < 0.95 and alive:
            node = rng.choice(alive)
            node.synced, node.checkpoint = node.log.log_end_offset, node.log.high_watermark
        elif roll < 0.96:
            self.now_ms += rng.randrange(LAG_MS)
            for node in alive:
                self.shrink(node)
        elif roll < 0.965 and alive:
            self.crash(rng.choice(alive))
        elif roll < 0.99:
            self.restart()
        else:
            self.elect(self.controller.isr - {self.controller.leader})
        if len(self.messages) > MAX_MESSAGES:
            del self.messages[rng.randrange(len(self.messages))]
        self.check()

    def produce(self, node: Node | None) -> None:
        if node is None or node.leader is None:
            return
        log, leader, rng = node.log, node.leader, self.rng
        try:
            leader.check_may_append(ACKS_ALL)
        except KafkaError:
            self.count("too few in sync")
            return
        base_offset = log.log_end_offset
        producer_id = rng.randrange(PRODUCERS)
        if producer_id in log.producers.open_txns and rng.random() < 0.4:
            log.append_marker(EndTxnMarker(producer_id, 0, rng.random() < 0.5, 0), self.now_ms, 0)
        else:
            entry = log.producers.entries.get(producer_id)
            raw = build_batch(
                [(None, b"%d" % rng.getrandbits(60))] * rng.randrange(1, 4),
                self.now_ms,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0 if entry is None else entry.last_sequence + 1,
                transactional=True,
            )
            log.append_as_leader(raw, check_produced(raw), self.now_ms)
        (raw_stored,) = (raw for header, raw in stored_from(log, base_offset))
        self.waiting.append(Acknowledgement(node, leader, log.log_end_offset, base_offset, raw_stored))
        self.advance(node)

    def advance(self, node: Node, high_watermark: int | None = None) -> None:
        """Advance a leader's high watermark, record the batches that this commits, and answer waiting producers."""
        log, leader = node.log, node.leader
        assert leader is not None
        if high_watermark is None:
            high_watermark = leader.high_watermark(log.log_end_offset, log.high_watermark, self.now_ms)
        before = log.high_watermark
        log.move_high_watermark(high_watermark)
        if high_watermark > before:
            for header, raw in stored_from(log, 0):
                if header.next_offset <= high_watermark:
                    known = self.committed.setdefault(header.base_offset, raw)
                    held(known == raw, f"{node.id} has committed another batch at {header.base_offset}")
        for one in list(self.waiting):
            if one.leader is leader and node.is_alive:
                code = leader.answer_to(ACKS_ALL, one.end_offset, log.high_watermark)
                if code is not None:
                    self.waiting.remove(one)
                if code is Code.NONE:
                    self.acknowledged[one.base_offset] = one.raw
                    self.count("acknowledged")

    def fetch(self, node: Node) -> None:
        following = node.following
        if following is None:
            return
        if following.state is FetchState.DELAYED:
            following.go_on()
        if following.state is not FetchState.FETCHING:
            return
        log = node.log
        offset, last_epoch, start = log.log_end_offset, log.epochs.latest, log.log_start_offset
        broker_epoch = node.broker_epoch if self.names_lives else leading.NO_BROKER_EPOCH
        leader_epoch, leader = following.leader_epoch, self.nodes[following.leader_id]
        number = following.ask()

        def arrives() -> None:
            answer = self.answer(leader, node.id, leader_epoch, offset, last_epoch, start, broker_epoch)
            if answer is not None:
                self.messages.append(lambda: self.fetched(node, following, number, answer, leader))

        self.messages.append(arrives)

    def answer(
        self, node: Node, asking: int, leader_epoch: int, offset: int, last_epoch: int, start: int, broker_epoch: int
    ) -> FetchedPartition | None:
        leader, log = node.leader, node.log
        if not node.is_alive:
            return None
        try:
            leading.check_leader_epoch(node.seen_epoch, leader_epoch)
            if leader is None:
                raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
            if last_epoch >= 0:
                end = EpochEnd(*log.epochs.end_offset_for(last_epoch, log.log_end_offset, leader.leader_epoch))
                diverging = leading.divergence(last_epoch, offset, end)
                if diverging is not None:
                    self.count("diverging")
                    return FetchedPartition(diverging=diverging, high_watermark=log.high_watermark)
            piece = read(log, offset, self.rng.choice([1, 200, 1 << 20]), committed=False, to_end=True)
            fetched = leader.fetched(
                asking,
                fetch_offset=offset,
                start_offset=start,
                broker_epoch=broker_epoch,
                log_end_offset=log.log_end_offset,
                high_watermark=log.high_watermark,
                now_ms=self.now_ms,
            )
        except KafkaError as error:
            self.count(error.code.name)
            return FetchedPartition(code=error.code)
        self.advance(node, fetched.high_watermark)
        if fetched.expansion is not None:
            self.alter(node, fetched.expansion)
        return FetchedPartition(records=bytes(piece.data), high_watermark=log.high_watermark, start_offset=log.log_start_offset)

    def fetched(self, node: Node, following: Following, number: int, answer: FetchedPartition, leader: Node) -> None:
        if not node.is_alive or node.following is not following or not following.is_awaited(number):
            return
        log = node.log
        own = None
        if answer.diverging is not None:
            own = EpochEnd(*log.epochs.end_offset_for(answer.diverging.epoch, log.log_end_offset))
        action = following.fetched(answer, node.view(), own)
        if isinstance(action, AskOffsets):
            if leader.log.log_end_offset < 0 or not leader.is_alive or leader.seen_epoch != following.leader_epoch:
                following.failed(Code.NOT_LEADER_OR_FOLLOWER)
                return
            action = following.offsets(leader.log.log_start_offset, leader.log.log_end_offset, node.view())
        if isinstance(action, Truncate):
            self.count("truncated" if action.offset < log.log_end_offset else "not truncated")
            node.synced = min(node.synced, action.offset)
            truncate_to(log, action.offset, self.now_ms)
        elif isinstance(action, StartAt):
            node.synced = 0
            truncate_fully_and_start_at(log, action.offset, self.now_ms)
        elif isinstance(action, Append):
            append_as_follower(log, action.records, following.leader_epoch, self.now_ms)
            high_watermark, _ = taken_over_from(action, node.view())
            log.move_high_watermark(high_watermark)

    def shrink(self, node: Node) -> None:
        if node.leader is not None:
            change = node.leader.shrink(node.log.log_end_offset, self.now_ms)
            if change is not None:
                self.count("shrunk")
                self.alter(node, change)

    def alter(self, node: Node, change: InSync) -> None:
        leader = node.leader
        assert leader is not None
        named = leader.broker_epochs(change)

        def arrives() -> None:
            code = self.altered(leader, change, named)
            isr, epoch = self.controller.isr, self.controller.partition_epoch
            self.messages.append(lambda: self.alter_answered(node, leader, change, code, isr, epoch))

        self.messages.append(arrives)

    def altered(self, leader: Leader, change: InSync, named: dict[int, int]) -> Code:
        controller = self.controller
        if leader.leader_epoch != controller.leader_epoch or controller.leader != leader.broker_id:
            return Code.FENCED_LEADER_EPOCH
        if change.partition_epoch != controller.partition_epoch:
            return Code.INVALID_UPDATE_VERSION
        if any(controller.live.get(b) is None or epoch not in (-1, controller.live[b]) for b, epoch in named.items()):
            return Code.INELIGIBLE_REPLICA
        controller.isr = change.proposed
        controller.partition_epoch += 1
        return Code.NONE

    def alter_answered(
        self, node: Node, leader: Leader, change: InSync, code: Code, isr: frozenset[int], partition_epoch: int
    ) -> None:
        if node.leader is not leader or not node.is_alive:
            return
        self.count(f"alter {code.name}")
        if code is Code.NONE:
            leader.altered(change, isr, leader.leader_epoch, partition_epoch)
            self.advance(node)
        elif leader.alter_refused(change, code):
            self.alter(node, change)

    def elect(self, candidates: frozenset[int]) -> None:
        controller = self.controller
        live = sorted(set(controller.live) & candidates)
        if not live:
            return
        controller.leader = self.rng.choice(live)
        controller.leader_epoch += 1
        controller.partition_epoch += 1
        self.count("elected")

    def learn(self, node: Node) -> None:
        """Deliver the current metadata to a broker (Partition.makeLeader, makeFollower)."""
        controller = self.controller
        node.live.clear()
        node.live.update(controller.live)
        if node.seen_epoch == controller.leader_epoch:
            if node.leader is not None:
                node.leader.learned(controller.isr, controller.partition_epoch)
                self.advance(node)
            return
        node.seen_epoch = controller.leader_epoch
        node.leader = node.following = None
        if controller.leader == node.id:
            node.log.leader_epoch = controller.leader_epoch
            node.leader = new_leader(
                broker_id=node.id,
                leader_epoch=controller.leader_epoch,
                start_offset=node.log.log_end_offset,
                replicas=[other.id for other in self.nodes],
                in_sync=controller.isr if not self.elects_out_of_sync else controller.isr | {node.id},
                partition_epoch=controller.partition_epoch,
                max_lag_ms=LAG_MS,
                min_in_sync=1 if len(self.nodes) < 3 else 2,
                live_epoch=node.live.get,
                now_ms=self.now_ms,
            )
            self.advance(node)
        elif controller.leader != NO_LEADER:
            node.following = Following(leader_id=controller.leader, leader_epoch=controller.leader_epoch)

    def crash(self, node: Node) -> None:
        """Crash a broker.

        The last in-sync replica keeps its whole log, as after a kill; other replicas lose a part of their unsynced data.
        """
        controller = self.controller
        others = controller.isr & set(controller.live) - {node.id}
        keeps_all = node.id in controller.isr and not others
        node.is_alive = False
        node.leader = node.following = None
        del controller.live[node.id]
        controller.partition_epoch += 1
        if not keeps_all:
            self.lose(node)
            controller.isr -= {node.id}
        self.count("kept" if keeps_all else "lost")
        if controller.leader == node.id:
            controller.leader, controller.leader_epoch = NO_LEADER, controller.leader_epoch + 1
            self.elect(frozenset(controller.live) if self.elects_out_of_sync else controller.isr)

    def lose(self, node: Node) -> None:
        """Truncate the log's files at a random offset after the synced data, possibly in the middle of a batch."""
        log, cut = node.log, self.rng.randrange(node.synced, node.log.log_end_offset + 1)
        for segment in list(log.segments):
            path = segment.path(LOG_SUFFIX)
            if segment.base_offset > max(cut, node.synced) or (segment.base_offset == cut and cut):
                node.fs.unlink(path)
                continue
            position, _ = segment.cut_at(cut) if cut > segment.base_offset else (0, 0)
            torn = self.rng.randrange(30)
            data = node.fs.read_file(path)
            if data is not None:
                node.fs.write_file(path, data[: position + torn] if position + torn < len(data) else data)

    def restart(self) -> None:
        dead = [node for node in self.nodes if not node.is_alive]
        if not dead:
            return
        node = self.rng.choice(dead)
        node.is_alive, node.seen_epoch = True, -1
        node.broker_epoch = self.next_epoch()
        node.open(self.now_ms)
        self.controller.live[node.id] = node.broker_epoch
        if self.controller.leader == NO_LEADER:
            self.elect(self.controller.isr)

    def check(self) -> None:
        live_isr = [n for n in self.nodes if n.is_alive and n.id in self.controller.isr]
        for node in self.nodes:
            state = (node.log, node.log.log_end_offset, node.log.high_watermark, node.log.truncations)
            if node.is_alive and state != node.checked:
                self.check_log(node)
                node.checked = state
        state = (tuple(n.checked for n in live_isr), len(self.committed), len(self.acknowledged))
        if state == self.checked:
            return
        self.checked = state
        for node in live_isr:
            lies = {header.base_offset: raw for header, raw in stored_from(node.log, 0)}
            for base_offset, raw in self.committed.items():
                held(lies.get(base_offset) == raw, f"{node.id} is in sync and lacks what is committed at {base_offset}")
            for base_offset, raw in self.acknowledged.items():
                held(lies.get(base_offset) == raw, f"{node.id} is in sync and lacks what is acknowledged at {base_offset}")

    def check_log(self, node: Node) -> None:
        log = node.log
        held(log.high_watermark >= node.shown, f"{node.id}: the high watermark goes back from {node.shown}")
        node.shown = log.high_watermark
        opened: dict[int, int] = {}
        aborted = set()
        replayed = ProducerState()
        history = TransactionHistory(replayed, 0, is_contiguous=True)
        for header, raw in stored_from(log, 0):
            history.apply(header, raw)
            if header.next_offset > log.high_watermark:
                continue
            known = self.committed.get(header.base_offset)
            held(known == raw, f"{node.id} shows at {header.base_offset} what is not committed")
            if header.is_control:
                marker = read_marker(raw, header)
                first = opened.pop(header.producer_id, None)
                if marker is not None and not marker.commit and first is not None:
                    aborted.add((header.producer_id, first, header.base_offset))
            else:
                opened.setdefault(header.producer_id, header.base_offset)
        stable = min(opened.values(), default=log.high_watermark)
        held(log.last_stable_offset == stable, f"{node.id}: last stable offset {log.last_stable_offset}, not {stable}")
        listed = {(a.producer_id, a.first_offset, a.last_offset) for a in log.aborted_from(0, 0, stable)}
        held(listed == {a for a in aborted if a[1] < stable}, f"{node.id}: aborted {listed}, not {aborted}")
        held(log.producers.open_txns == replayed.open_txns, f"{node.id}: open {log.producers.open_txns}")
        sequences = {p: (e.epoch, e.last_sequence) for p, e in log.producers.entries.items()}
        expected = {p: (e.epoch, e.last_sequence) for p, e in replayed.entries.items()}
        held(sequences == expected, f"{node.id}: producers {sequences}, not {expected}")


def stored_from(log: Log, offset: int) -> list[tuple[BatchHeader, bytes]]:
    return [(header, raw) for header, raw in stored(log) if header.base_offset >= offset]


def play(seed: int, steps: int = 1_000, **given: bool) -> ReplicaWorld:
    world = ReplicaWorld(seed, **given)
    for _ in range(steps):
        world.step()
    return world
