"""Reference model of the transaction protocol: the expected response to each request, and the records that readers then see.

The model follows the rules, not the broker's code. It contains states of transactional ids, epochs, producer state of partitions,
the last stable offset, committed and pending offsets, and the member epochs that may commit offsets. Producer epochs stay far below
their maximum. Transactions are completed before the next request, so no response depends on a Prepare state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

EMPTY, ONGOING, COMMITTED, ABORTED = "Empty", "Ongoing", "CompleteCommit", "CompleteAbort"
AT_REST = (EMPTY, COMMITTED, ABORTED)
UNSET = -1

Identity = tuple[int, int]


@dataclass(slots=True)
class Id:
    """The coordinator's state of a transactional id.

    A crash of the broker resets two fields: ``before`` is the previous epoch, which a retried request may still use. ``early`` is
    the epoch at which a commit without an open transaction was answered with CONCURRENT_TRANSACTIONS.
    """

    pid: int
    epoch: int
    state: str = EMPTY
    partitions: set[str] = field(default_factory=set)
    before: int = UNSET
    early: int = UNSET
    since_ms: int = 0


@dataclass(slots=True)
class Producer:
    """A partition's state of a producer id. ``last`` is the last sequence of the current epoch, or -1 if there is none."""

    epoch: int
    last: int = UNSET
    newest: tuple[int, int] | None = None
    opened_at: int = UNSET


@dataclass(slots=True)
class Unverified:
    """The lowest sequence of an epoch among a producer's batches that required verification and were not appended.

    ``newer``: whether the first of these batches, in any epoch, was sent with transaction version 2.
    """

    epoch: int
    lowest: int
    newer: bool


@dataclass(slots=True)
class Batch:
    pid: int
    value: str
    outcome: str = ONGOING


class Partition:
    """A log of batches with one record each, and of markers (None)."""

    def __init__(self) -> None:
        self.log: list[Batch | None] = []
        self.producers: dict[int, Producer] = {}
        self.unverified: dict[int, Unverified] = {}

    @property
    def last_stable_offset(self) -> int:
        return min((p.opened_at for p in self.producers.values() if p.opened_at != UNSET), default=len(self.log))

    def committed(self) -> list[str]:
        return [b.value for b in self.log[: self.last_stable_offset] if b is not None and b.outcome == COMMITTED]

    def everything(self) -> list[str]:
        return [b.value for b in self.log if b is not None]

    def is_in_transaction(self, pid: int, epoch: int) -> bool:
        known = self.producers.get(pid)
        return known is not None and known.epoch == epoch and known.opened_at != UNSET

    def note_unverified(self, pid: int, epoch: int, sequence: int, *, newer: bool) -> None:
        noted = self.unverified.setdefault(pid, Unverified(epoch, sequence, newer))
        if epoch > noted.epoch:
            noted.epoch, noted.lowest = epoch, sequence
        elif epoch == noted.epoch:
            noted.lowest = min(noted.lowest, sequence)

    def append(self, pid: int, epoch: int, sequence: int, value: str, *, newer: bool) -> str:
        known = self.producers.get(pid)
        if known is not None and known.epoch == epoch and known.newest is not None and known.newest[0] == sequence:
            return f"NONE @{known.newest[1]} stamped"
        if known is not None and epoch < known.epoch:
            return "INVALID_PRODUCER_EPOCH"
        unverified = self.unverified.get(pid, Unverified(epoch, sequence, newer))
        if unverified.epoch == epoch and sequence > unverified.lowest:
            fits = False
        elif known is None:
            fits = sequence == 0 or not unverified.newer
        elif epoch > known.epoch:
            fits = sequence == 0
        else:
            fits = sequence == known.last + 1
        if not fits:
            return "OUT_OF_ORDER_SEQUENCE_NUMBER"
        at = len(self.log)
        if known is None or epoch > known.epoch:
            known = self.producers[pid] = Producer(epoch)
        if known.opened_at == UNSET:
            known.opened_at = at
        known.last, known.newest = sequence, (sequence, at)
        self.unverified.pop(pid, None)
        self.log.append(Batch(pid, value))
        return f"NONE @{at}"

    def mark(self, pid: int, epoch: int, outcome: str) -> str:
        known = self.producers.get(pid)
        if known is not None and epoch < known.epoch:
            return "INVALID_PRODUCER_EPOCH"
        self.unverified.pop(pid, None)
        if known is None or epoch > known.epoch:
            self.producers[pid] = Producer(epoch)
        else:
            known.opened_at = UNSET
        for batch in self.log:
            if batch is not None and batch.pid == pid and batch.outcome == ONGOING:
                batch.outcome = outcome
        self.log.append(None)
        return "NONE"


class Offsets:
    """The offset of one partition committed by one streams group, and the pending offsets of transactions.

    Each offset is stored with the position of its write among all writes, because the newest commit, plain or transactional,
    determines the committed offset. The group has one member, which has had the partition's task since it joined.
    """

    JOINED = 2

    def __init__(self) -> None:
        self.committed = (0, -1)
        self.pending: dict[int, tuple[int, int]] = {}
        self.producers: dict[int, Producer] = {}
        self.member_epoch = self.JOINED
        self._written = 0

    def write(self, offset: int) -> tuple[int, int]:
        self._written += 1
        return self._written, offset

    def is_stale(self, member_epoch: int) -> bool:
        """Whether a commit with this member epoch is refused.

        An earlier epoch is valid for partitions assigned since then (KIP-1251).
        """
        return not self.JOINED <= member_epoch <= self.member_epoch

    def mark(self, pid: int, epoch: int, outcome: str) -> None:
        written = self.pending.pop(pid, None)
        if written is not None and outcome == COMMITTED:
            self.committed = max(self.committed, written)
        self.producers[pid] = Producer(epoch)


class Model:
    """The model of a broker. Each method returns the expected response to a request.

    In two situations Apache Kafka refuses a commit by EndTxn version 5 with an error that is fatal for a correct producer. ottla
    responds with another error there, as the model does if ``is_ottla`` is set.
    """

    OFFSETS = "offsets"

    def __init__(self, partitions: list[str], timeout_ms: int, *, is_ottla: bool) -> None:
        self.is_ottla = is_ottla
        self.ids: dict[str, Id] = {}
        self.partitions = {name: Partition() for name in partitions}
        self.offsets = Offsets()
        self.timeout_ms = timeout_ms

    def init(self, name: str, expected: Identity | None, new_pid: int, now_ms: int) -> str | Identity:
        known = self.ids.get(name)
        if known is None:
            known = self.ids[name] = Id(new_pid, 0)
            return known.pid, 0
        if expected is not None and expected[0] != known.pid:
            return "PRODUCER_FENCED"
        if known.state == ONGOING:
            self._finish(known, ABORTED, bump=True)
            return "CONCURRENT_TRANSACTIONS"
        if expected is None or expected[1] == known.epoch:
            known.before = UNSET if expected is None else known.epoch
            known.epoch += 1
        elif expected[1] != known.before:
            return "PRODUCER_FENCED"
        known.state = EMPTY
        return known.pid, known.epoch

    def _refusal(self, name: str, pid: int, epoch: int) -> str | None:
        known = self.ids.get(name)
        if known is None or known.pid != pid:
            return "INVALID_PRODUCER_ID_MAPPING"
        return None if known.epoch == epoch else "PRODUCER_FENCED"

    def add(self, name: str, pid: int, epoch: int, partition: str, now_ms: int) -> str:
        refusal = self._refusal(name, pid, epoch)
        if refusal is not None:
            return refusal
        known = self.ids[name]
        if known.state != ONGOING:
            known.state, known.partitions, known.since_ms = ONGOING, set(), now_ms
        known.partitions.add(partition)
        return "NONE"

    def verify(self, name: str, pid: int, epoch: int, partition: str) -> str:
        refusal = self._refusal(name, pid, epoch)
        if refusal is not None:
            return refusal
        known = self.ids[name]
        return "NONE" if known.state == ONGOING and partition in known.partitions else "TRANSACTION_ABORTABLE"

    def end(self, name: str, pid: int, epoch: int, *, commit: bool, newer: bool) -> str | Identity:
        known = self.ids.get(name)
        if known is None or known.pid != pid:
            return "INVALID_PRODUCER_ID_MAPPING"
        outcome = COMMITTED if commit else ABORTED
        if newer and known.state in (COMMITTED, ABORTED) and epoch == known.epoch - 1:
            if known.state == outcome:
                return pid, known.epoch
            # Kafka up to 4.4.0 does not fence a commit that arrives after the coordinator has aborted the transaction
            # (KAFKA-20785).
            return "PRODUCER_FENCED" if commit and self.is_ottla else "INVALID_TXN_STATE"
        if epoch != known.epoch:
            return "PRODUCER_FENCED"
        if known.state == ONGOING or (newer and not commit):
            self._finish(known, outcome, bump=newer)
            return (pid, known.epoch) if newer else "NONE"
        if not newer and known.state == outcome:
            return "NONE"
        if newer and self.is_ottla and known.early != epoch:
            # A commit may arrive before the requests of its transaction, so the client is asked to retry it.
            known.early = epoch
            return "CONCURRENT_TRANSACTIONS"
        return "INVALID_TXN_STATE"

    def _finish(self, known: Id, outcome: str, *, bump: bool) -> None:
        pending = known.partitions if known.state == ONGOING else set()
        if bump:
            known.before, known.epoch = known.epoch, known.epoch + 1
        known.state, known.partitions = outcome, set()
        for partition in pending:
            if partition == self.OFFSETS:
                self.offsets.mark(known.pid, known.epoch, outcome)
            else:
                self.partitions[partition].mark(known.pid, known.epoch, outcome)

    def _join(self, name: str, pid: int, epoch: int, partition: str, now_ms: int, *, newer: bool) -> str:
        """Add the batch's partition to the transaction, or verify it. Returns the error, or NONE if the batch may be appended."""
        if newer:
            return self.add(name, pid, epoch, partition, now_ms)
        return self.verify(name, pid, epoch, partition)

    def produce(self, name: str, pid: int, epoch: int, where: str, sequence: int, value: str, now_ms: int, *, newer: bool) -> str:
        partition = self.partitions[where]
        known = partition.producers.get(pid)
        if known is not None and epoch < known.epoch:
            return "INVALID_PRODUCER_EPOCH"
        if not partition.is_in_transaction(pid, epoch):
            partition.note_unverified(pid, epoch, sequence, newer=newer)
            joined = self._join(name, pid, epoch, where, now_ms, newer=newer)
            if joined != "NONE":
                return "INVALID_PRODUCER_EPOCH" if joined == "PRODUCER_FENCED" else joined
        return partition.append(pid, epoch, sequence, value, newer=newer)

    def commit_offset(
        self, name: str, pid: int, epoch: int, offset: int, now_ms: int, *, newer: bool, member_epoch: int | None = None
    ) -> str:
        """Return the response to a transactional offset commit. Without ``member_epoch`` the request names no member."""
        known = self.offsets.producers.get(pid)
        if known is not None and epoch < known.epoch:
            return "INVALID_PRODUCER_EPOCH"
        if known is None or known.epoch != epoch or known.opened_at == UNSET:
            joined = self._join(name, pid, epoch, self.OFFSETS, now_ms, newer=newer)
            if joined == "TRANSACTION_ABORTABLE":
                return "INVALID_TXN_STATE"
            if joined != "NONE":
                return "INVALID_PRODUCER_EPOCH" if joined == "PRODUCER_FENCED" else joined
        if member_epoch is not None and self.offsets.is_stale(member_epoch):
            return "ILLEGAL_GENERATION"
        self.offsets.producers[pid] = Producer(epoch, opened_at=0)
        self.offsets.pending[pid] = self.offsets.write(offset)
        return "NONE"

    def commit_plainly(self, offset: int, member_epoch: int) -> str:
        if self.offsets.is_stale(member_epoch):
            return "STALE_MEMBER_EPOCH"
        self.offsets.committed = self.offsets.write(offset)
        return "NONE"

    def change_member(self) -> str:
        """Return the response to a heartbeat in which the member reports a change."""
        self.offsets.member_epoch += 1
        return f"NONE e{self.offsets.member_epoch}"

    def offset(self, *, stable: bool) -> str:
        return "UNSTABLE_OFFSET_COMMIT" if stable and self.offsets.pending else str(self.offsets.committed[1])

    def admin_marker(self, pid: int, epoch: int, where: str, outcome: str) -> str:
        return self.partitions[where].mark(pid, epoch, outcome)

    def crash(self) -> None:
        for known in self.ids.values():
            known.before = known.early = UNSET
        for partition in self.partitions.values():
            partition.unverified.clear()

    def tick(self, now_ms: int) -> None:
        for known in self.ids.values():
            if known.state == ONGOING and known.since_ms + self.timeout_ms < now_ms:
                self._finish(known, ABORTED, bump=True)
