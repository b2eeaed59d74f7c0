"""Random histories of transactions on a simulated broker, and an oracle of the torn (partly lost) transactions after data loss.

`History` runs transactions of both transaction versions and records the offsets of everything that they write. After the ends of
some logs are removed, `Oracle` computes which transactions an audit must report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.metadata import TxnMetadata, from_record
from ottla.coordinator.transaction.states import PREPARED
from ottla.operations.audit import TornTransaction
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.markers import read_marker
from ottla.protocol.records import BatchHeader, batches, read_records
from ottla.protocol.transaction_states import TxnState
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.checkpoints import RECOVERY_POINTS, read_offsets
from tests.scenarios.play import perform
from tests.scenarios.world import World

Where = tuple[str, int]
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.retention.check.interval.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
}
PARTITIONS = ("t", "t/1", "u")


@dataclass(slots=True)
class Transaction:
    """One transaction. ``data`` and ``markers`` have the offsets of its batches and of its first marker by partition.

    ``ongoing``, ``decision`` and ``outcome`` are offsets of its last Ongoing record, its Prepare record and its Complete record
    in the partition ``home`` of the transaction log.
    """

    transactional_id: str
    pid: int
    version: int
    began: int
    home: Where = ("", 0)
    partitions: set[Where] = field(default_factory=set)
    data: dict[Where, list[int]] = field(default_factory=dict)
    markers: dict[Where, int] = field(default_factory=dict)
    commits: bool = False
    epoch: int = -1
    ongoing: int = -1
    decision: int = -1
    outcome: int = -1


class History:
    """Runs scenario commands and records the batches that each command has written.

    Simulated time advances by ``pause_ms`` after each command. With 0, all commands have the same timestamp.
    """

    def __init__(self, settings: dict[str, str], topics: str, pause_ms: int = 1) -> None:
        self._pause_ms = pause_ms
        self.fs = MemoryFilesystem()
        self.broker = SimulatedBroker({**SETTINGS, **settings}, fs=self.fs).start()
        self.world = World(self.broker, "ottla", "")
        for name, count in (("t", 2), ("u", 1)):
            assert perform(self.world, f"topic {name} partitions={count} {topics}") == ""
        self.transactions: list[Transaction] = []
        self.open: dict[str, Transaction] = {}
        self.order: dict[tuple[Where, int], int] = {}
        self._ends: dict[Where, int] = {}
        self._note(None)

    def init(self, name: str) -> None:
        transaction = self.open.pop(name, None)
        if transaction is not None:
            # InitProducerId first aborts the open transaction, with the next producer epoch.
            assert perform(self.world, f"{name} = init {name}") == "CONCURRENT_TRANSACTIONS"
            self._note(transaction)
            self.broker.sleep(self._pause_ms)
        self._play(f"{name} = init {name}", None)

    def produce(self, name: str, where: str, version: int) -> None:
        transaction = self._transaction(name, version)
        if version == 1:
            self._play(f"add {name} {where} v=3", transaction)
        self._play(f"produce {name} {where} keyed v={11 if version == 1 else 12}", transaction)

    def only_add(self, name: str, where: str) -> None:
        self._play(f"add {name} {where} v=3", self._transaction(name, 1))

    def offsets(self, name: str, group: str, version: int) -> None:
        transaction = self._transaction(name, version)
        if version == 1:
            self._play(f"add_offsets {name} {group} v=3", transaction)
        self._play(f"offsets {name} {group} t={len(self.order)} v={4 if version == 1 else 5}", transaction)

    def end(self, name: str, commit: bool) -> None:
        transaction = self.open.pop(name)
        self._play(f"{'commit' if commit else 'abort'} {name} v={4 if transaction.version == 1 else 5}", transaction)

    def kill_before_complete(self, name: str, commit: bool) -> None:
        """End a transaction and kill the broker between markers and Complete record. The restart writes the markers again."""
        transaction = self.open[name]
        self.end(name, commit)
        if transaction.outcome < 0:
            return
        self.broker.kill()
        cut(self.fs, transaction.home, transaction.outcome)
        self._ends[transaction.home] = transaction.outcome
        transaction.outcome = -1
        self._start(transaction)

    def restart(self, *, kill: bool) -> None:
        self.broker.kill() if kill else self.broker.stop()
        self._start(None)

    def _start(self, transaction: Transaction | None) -> None:
        self.world.forget_connection()
        self.broker.start()
        assert not self.broker.broker.torn, "a transaction is torn before any data was lost"
        self._note(transaction)
        self.broker.sleep(2)

    def wait(self, ms: int) -> None:
        self.broker.sleep(ms)
        self._note(None)

    def _transaction(self, name: str, version: int) -> Transaction:
        known = self.open.get(name)
        if known is None:
            actor = self.world.actors[name]
            known = self.open[name] = Transaction(name, actor.pid, version, len(self.order))
            self.transactions.append(known)
        return known

    def _play(self, command: str, transaction: Transaction | None) -> None:
        answer = perform(self.world, command)
        assert answer.startswith("NONE"), f"{command}: {answer}"
        self._note(transaction)
        self.broker.sleep(self._pause_ms)

    def _note(self, transaction: Transaction | None) -> None:
        for partition in self.broker.broker.partitions:
            log = partition.log
            where = (log.topic, log.partition)
            start = self._ends.get(where, 0)
            if log.log_end_offset == start:
                continue
            self._ends[where] = log.log_end_offset
            for segment in log.segments:
                for _, header, raw in segment.scan():
                    if header.base_offset >= start:
                        self.order[where, header.base_offset] = len(self.order)
                        self._wrote(transaction, where, header, bytes(raw))

    def _wrote(self, transaction: Transaction | None, where: Where, header: BatchHeader, raw: bytes) -> None:
        if where[0] == TRANSACTION_TOPIC:
            for record in read_records(raw):
                _, metadata = from_record(LogRecord(record.key, record.value))
                if transaction is None or metadata is None:
                    continue
                transaction.home = where
                transaction.partitions |= metadata.partitions
                if metadata.state in PREPARED:
                    transaction.decision, transaction.commits = record.offset, metadata.state is TxnState.PREPARE_COMMIT
                    transaction.epoch = metadata.producer_epoch
                elif transaction.decision >= 0 > transaction.outcome:
                    transaction.outcome = record.offset
                elif transaction.decision < 0:
                    transaction.ongoing = record.offset
        elif transaction is not None and header.is_control:
            transaction.markers.setdefault(where, header.base_offset)
        elif transaction is not None and header.is_transactional:
            transaction.data.setdefault(where, []).append(header.base_offset)


def paths_of(fs: MemoryFilesystem, where: Where) -> list[str]:
    prefix = f"{DATA_DIR}/{where[0]}-{where[1]}/"
    return sorted(p for p in fs.files if p.startswith(prefix) and p.endswith(".log"))


def base_of(fs: MemoryFilesystem, where: Where) -> int:
    """Return the base offset of the last segment."""
    return int(paths_of(fs, where)[-1].rpartition("/")[2].removesuffix(".log"))


def active(fs: MemoryFilesystem, where: Where) -> list[int]:
    """Return the offsets of the batches that a crash may lose: batches of the last segment from the recovery point on."""
    point = read_offsets(fs, f"{DATA_DIR}/{RECOVERY_POINTS}").get(where, 0)
    return [h.base_offset for _, h in batches(fs.files[paths_of(fs, where)[-1]]) if h.base_offset >= point]


def cut(fs: MemoryFilesystem, where: Where, offset: int) -> None:
    """Remove all batches from ``offset`` on from the last segment, as if they had not reached the disk before a power cut."""
    raw = fs.files[paths_of(fs, where)[-1]]
    for at, header in batches(bytes(raw)):
        if header.base_offset >= offset:
            del raw[at:]
            return


def stored(fs: MemoryFilesystem, where: Where) -> Iterator[tuple[BatchHeader, bytes]]:
    for path in paths_of(fs, where):
        raw = bytes(fs.files[path])
        for at, header in batches(raw):
            yield header, raw[at : at + header.size_bytes]


@dataclass(slots=True)
class Left:
    """The remaining content of a partition after the loss and after compaction.

    ``oldest_marker`` is the position in the history of the first marker after which compaction has removed nothing.
    """

    offsets: set[int]
    next_offset: int
    is_whole: bool
    oldest_marker: int | None
    open_epochs: dict[int, int] = field(default_factory=dict)
    """Producer epochs of open transactions by producer id. A transaction is open if no marker follows its batches."""


class Oracle:
    """The losses that an audit must report and may report for a history, after the ends of some logs were removed.

    Each loss is a tuple of kind, producer id, epoch and partition. Every audit must report the losses in
    ``read_by_all``. An audit of a whole directory must report all in ``required``, since it also reads older segments.
    """

    def __init__(self, history: History, fs: MemoryFilesystem) -> None:
        self.required: set[tuple[str, int, int, Where]] = set()
        self.allowed: set[tuple[str, int, int, Where]] = set()
        self._unread: set[tuple[str, int, int, Where]] = set()
        self._history = history
        self._fs = fs
        self._left = {where: self._what_is_left(fs, where) for where, _ in history.order}
        self._newest: dict[str, TxnMetadata | None] = {}
        self._known, self._pids = self._coordinators(fs)
        # Decided transactions that the next start completes, by transactional id.
        self._prepared = {
            t.transactional_id: t
            for t in history.transactions
            if self._is_left(t.home, t.decision) and t.outcome >= self._left[t.home].next_offset
        }
        for transaction in history.transactions:
            for where in transaction.partitions | set(transaction.data):
                self._judge(transaction, where)
        self.read_by_all = self.required - self._unread

    def _what_is_left(self, fs: MemoryFilesystem, where: Where) -> Left:
        left = Left(set(), 0, True, None)
        for header, raw in stored(fs, where):
            if header.base_offset > left.next_offset or header.record_count <= header.last_offset_delta:
                left.is_whole, left.oldest_marker = False, None
            left.next_offset = header.next_offset
            left.offsets |= set(range(header.base_offset, header.next_offset))
            if header.is_control:
                left.open_epochs.pop(header.producer_id, None)
            elif header.is_transactional:
                left.open_epochs[header.producer_id] = header.producer_epoch
            if header.is_control and read_marker(raw, header) is not None and left.oldest_marker is None:
                left.oldest_marker = self._history.order[where, header.base_offset]
        return left

    def _coordinators(self, fs: MemoryFilesystem) -> tuple[set[tuple[int, Where]], dict[str, int]]:
        """Return the state in the remaining transaction log.

        The first value has producer id and partition of every open or decided transaction. The second value has the producer
        id of each transactional id.
        """
        known, pids = set[tuple[int, Where]](), dict[str, int]()
        newest = self._newest
        for where in self._left:
            if where[0] == TRANSACTION_TOPIC:
                for _, raw in stored(fs, where):
                    for record in read_records(raw):
                        name, metadata = from_record(LogRecord(record.key, record.value))
                        newest[name] = metadata
        for name, metadata in newest.items():
            if metadata is not None:
                pids[name] = metadata.producer_id
                if metadata.state is TxnState.ONGOING or metadata.state in PREPARED:
                    known |= {(metadata.producer_id, where) for where in metadata.partitions}
        return known, pids

    def _is_added_again(self, transaction: Transaction, where: Where) -> bool:
        """Whether the next start adds the partition to the ongoing transaction or begins a transaction that has the partition.

        It does so for an open transaction in the partition that has the producer id and epoch known to the coordinator.
        """
        metadata = self._newest.get(transaction.transactional_id)
        epoch = self._left[where].open_epochs.get(transaction.pid) if where in self._left else None
        if metadata is None or epoch is None or (metadata.producer_id, metadata.producer_epoch) != (transaction.pid, epoch):
            return False
        if metadata.state not in PREPARED:
            return True
        owing = [
            w for w in metadata.partitions if w in self._left and self._left[w].open_epochs.get(transaction.pid, epoch) < epoch
        ]
        return metadata.client_transaction_version == 2 and not owing

    def _is_left(self, where: Where, offset: int | None) -> bool:
        return offset is not None and offset >= 0 and where in self._left and offset in self._left[where].offsets

    def _judge(self, transaction: Transaction, where: Where) -> None:
        pid, epoch = transaction.pid, transaction.epoch
        left = self._left.get(where)
        marker = transaction.markers.get(where)
        is_decided = self._is_left(transaction.home, transaction.decision)
        is_ended = is_decided and self._is_left(transaction.home, transaction.outcome)
        # Compaction may have removed some of the transaction's records.
        has_data = any(self._is_left(where, offset) for offset in transaction.data.get(where, ()))
        is_cut = left is not None and marker is not None and marker >= left.next_offset
        if is_decided and is_ended and is_cut and left is not None:
            lost = ("unmarked", pid, epoch, where)
            self.allowed.add(lost)
            decided = self._history.order[transaction.home, transaction.decision]
            if left.is_whole or (left.oldest_marker is not None and left.oldest_marker < decided):
                self.required.add(lost)
        is_owed = is_decided and not is_ended and transaction.commits and transaction.version == 2
        if is_owed and is_cut and not has_data:
            lost = ("unwritten", pid, epoch, where)
            self.allowed.add(lost)
            if left is not None and left.is_whole:
                self.required.add(lost)
        # The earlier transaction is decided but not complete, so its markers may be written again. Therefore a later marker does
        # not prove a later transaction; only records do.
        earlier = self._prepared.get(transaction.transactional_id)
        is_behind = earlier is not None and transaction.began > earlier.began and where in earlier.partitions
        # The Prepare record is lost only if its offset is beyond the end of the log. Otherwise compaction has removed it.
        is_forgotten = transaction.decision >= self._left[transaction.home].next_offset
        if is_forgotten and self._is_left(where, marker):
            lost = ("ahead", pid, -1, where)
            self.allowed.add(lost)
            if self._pids.get(transaction.transactional_id) == pid and (transaction.commits or transaction.version == 2):
                if not is_behind:
                    self.required.add(lost)
                # A starting broker does not read older segments. Of a marker in an older segment it knows only the producer epoch.
                if transaction.version == 1 and (marker or 0) < base_of(self._fs, where):
                    self._unread.add(lost)
        if earlier is not None and is_behind and has_data and self._is_left(where, earlier.markers.get(where)):
            lost = ("ahead", pid, -1, where)
            self.allowed.add(lost)
            # Without the Ongoing record before the decision, a marker with the same timestamp may belong to either transaction.
            # With transaction version 2, a start logs the lost completion and the added partition again, so nothing is torn.
            if self._is_left(earlier.home, earlier.ongoing) and not self._is_added_again(transaction, where):
                self.required.add(lost)
                if earlier.markers[where] < base_of(self._fs, where):
                    self._unread.add(lost)
        is_open = bool(transaction.data.get(where)) and not self._is_left(where, marker)
        if is_open and (pid, where) not in self._known and not self._is_added_again(transaction, where):
            # If compaction has removed the aborted records, the producer snapshot still tells the next start about the open
            # transaction.
            self.allowed.add(("open", pid, -1, where))
            if has_data:
                self.required.add(("open", pid, -1, where))
        if has_data:
            # The coordinator has lost the record of the producer epoch that the partition's batches have.
            self.allowed.add(("ahead", pid, -1, where))


_KINDS = {"it was": "unmarked", "it commits": "unwritten", "the partition has": "ahead", "it is open": "open"}


def named(torn: list[TornTransaction]) -> set[tuple[str, int, int, Where]]:
    """Convert reported transactions to the oracle's tuples of kind, producer id, epoch and partition."""
    losses = set()
    for lost in torn:
        kind = next(kind for start, kind in _KINDS.items() if lost.reason.startswith(start))
        # If a partition has newer epochs than the coordinator, it is reported once, for its newest epoch.
        epoch = re.search(r"epoch (\d+)", lost.reason) if kind in ("unmarked", "unwritten") else None
        losses.add((kind, lost.producer_id, -1 if epoch is None else int(epoch[1]), (lost.topic, lost.partition)))
    return losses


__all__ = ["OFFSETS_TOPIC", "PARTITIONS", "History", "Oracle", "active", "cut", "named"]
