"""Finds torn transactions, which lost records or markers in a crash: compares the coordinator's decisions with markers.

With ``durability=process`` a power cut may remove the end of one file and not of another. Apache Kafka does not report this.
`operations.directory_audit` audits a whole directory; `broker.partitions.recovery_audit` audits the batches that recovery after a
crash has read anyway.

A producer of transaction version 2 has a new epoch for each transaction, so a decision's marker is the marker with the decision's
epoch. Other producers end many transactions at one epoch. Then a marker belongs to a decision if it was written between the
decision's Prepare and Complete records; each marker belongs to one decision only. Markers are counted instead of compared by time
if the clock was set back, or if the clocks of the partition's leader and the coordinator differ. Transactions of
version 2 show such clocks, because their epochs give the true order.

A partition *answers for* a decision if its log starts early enough to contain the marker. A partition *contradicts* a decision if
it has a marker of the other outcome instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.lost_additions import is_lost
from ottla.coordinator.transaction.metadata import TxnMetadata, from_record, state_of
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.errors import DecodeError, KafkaError
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import NO_PRODUCER_ID, BatchHeader, Record
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TV2, TxnState
from ottla.storage.reading import records_of
from ottla.storage.transaction_history import TransactionHistory, has_data, unpack

MAX_TORN = 10_000
"""Maximum number of torn transactions that are reported. Further torn transactions are only counted."""
ANY_TIME = (-1, 1 << 62)


class TornTransaction(msgspec.Struct, frozen=True):
    """A transaction that lost records or markers in one partition, with the evidence. ``transactional_id`` is None if no
    coordinator knows the producer."""

    topic: str
    partition: int
    producer_id: int
    reason: str
    transactional_id: str | None = None

    def __str__(self) -> str:
        who = "an unknown transactional id" if self.transactional_id is None else self.transactional_id
        return f"{self.topic}-{self.partition}: a transaction of {who} (producer {self.producer_id}): {self.reason}"


class _MarkerCursor(msgspec.Struct):
    """A cursor over a producer's markers in one partition, which are assigned to decided transactions in order. ``at`` is the index
    of the
    first marker that may still be assigned. ``exhausted`` has the epochs and outcomes of which every marker is assigned."""

    at: int = 0
    exhausted: set[tuple[int, bool]] = msgspec.field(default_factory=set)

    def take(self, markers: Sequence[int], epoch: int, window: tuple[int, int], *, commits: bool) -> int:
        """Return the index of the next marker with this epoch and outcome in ``window``, times in ms; -1 without such a marker.

        Markers before an assigned marker are never assigned afterwards.
        """
        if (epoch, commits) in self.exhausted:
            return -1
        is_before = True
        for at in range(self.at, len(markers)):
            written_ms, marker_epoch, marker_commits = unpack(markers[at])
            if marker_epoch > epoch or (marker_epoch == epoch and written_ms > window[1]):
                return -1
            if marker_epoch == epoch and written_ms >= window[0]:
                is_before = False
                if marker_commits is commits:
                    self.at = at + 1
                    return at
            elif is_before:
                self.at = at + 1
        if window == ANY_TIME:
            self.exhausted.add((epoch, commits))
        return -1


class PartitionView(msgspec.Struct):
    """The audited data of one partition. ``born_ms`` is the creation time of its topic; None if unknown.

    ``timed`` and ``counted`` are cursors by producer id: for markers assigned by their times, and by their order only.
    """

    history: TransactionHistory
    born_ms: int | None = None
    timed: dict[int, _MarkerCursor] = msgspec.field(default_factory=dict)
    counted: dict[int, _MarkerCursor] = msgspec.field(default_factory=dict)
    has_other_clock: bool = False

    def answers_for(self, decision: LoggedDecision) -> bool:
        """Whether the marker of the decision, had it been written, must be among the markers that were read.

        Otherwise the marker may be before the first marker that was read, or was removed by retention, by compaction or with an
        earlier topic of the same name.
        """
        history, metadata = self.history, decision.metadata
        at_start = history.producer_at_start(metadata.producer_id)
        if at_start is not None:
            if metadata.producer_epoch < at_start.epoch:
                return False
            if metadata.producer_epoch == at_start.epoch and (decision.has_own_epoch or decision.prepared_ms <= at_start.last_ms):
                return False
        is_later = history.first_marker_ms is not None and history.first_marker_ms < decision.prepared_ms
        if not history.is_contiguous:
            return is_later
        if at_start is not None or is_later:
            return True
        born_ms = self.born_ms if self.born_ms is not None else history.first_batch_ms
        return born_ms is None or born_ms <= decision.prepared_ms


class LoggedDecision(msgspec.Struct, gc=False, frozen=True):
    """A Prepare record that the transaction's Complete record followed, and the times of both records."""

    metadata: TxnMetadata
    prepared_ms: int
    ended_ms: int

    @property
    def commits(self) -> bool:
        return self.metadata.state is TxnState.PREPARE_COMMIT

    @property
    def has_own_epoch(self) -> bool:
        return self.metadata.client_transaction_version >= TV2

    @property
    def window(self) -> tuple[int, int]:
        """The range of times, in ms, of the decision's markers; any time if the epoch identifies the marker, or if the clock was
        set back."""
        if self.has_own_epoch or self.ended_ms < self.prepared_ms:
            return ANY_TIME
        return self.prepared_ms, self.ended_ms


class Newest(msgspec.Struct, gc=False, frozen=True):
    """The coordinator's newest record of a transactional id, and its time.

    ``latest_ms`` is the latest time of all records of the id. ``previous_ms`` is the time of the id's previous record, or None.
    """

    metadata: TxnMetadata
    written_ms: int
    latest_ms: int
    previous_ms: int | None


class _NewestRecord(msgspec.Struct, gc=False, frozen=True):
    """The newest record of an id, still encoded, because most of these records are never decoded."""

    value: bytes
    state: TxnState
    written_ms: int
    latest_ms: int
    previous_ms: int | None


class _Missing(msgspec.Struct):
    """Number of decided transactions of one producer id, epoch and outcome without a marker in a partition: ``timed`` by the
    markers' times, ``counted`` by their number."""

    timed: int = 0
    counted: int = 0
    is_contradicted: bool = False


class DecisionAudit:
    """Reads the partitions of ``__transaction_state`` one by one with `read`. Then `torn_transactions` returns the result."""

    def __init__(self, view_of: Callable[[TopicPartition], PartitionView | None], forgotten_ms: int = -1) -> None:
        """``view_of`` returns a partition's data; None for a deleted partition. Decisions logged up to ``forgotten_ms`` are not
        compared.
        """
        self._view_of = view_of
        self._forgotten_ms = forgotten_ms
        self._newest: dict[int, Newest] = {}
        # For each new producer id: the last state of its transactional id before the producer id changed.
        self._before_rotation: dict[int, TxnMetadata] = {}
        self._open: set[tuple[int, TopicPartition]] = set()
        self._missing: dict[tuple[str, int, int, bool, TopicPartition], _Missing] = {}
        self.decided = 0
        self.open = 0
        self.omitted = 0

    def read(self, batches: Iterable[tuple[BatchHeader, Buffer]]) -> None:
        """Read one partition of ``__transaction_state`` from its start."""
        last: dict[bytes, _NewestRecord] = {}
        for header, raw in batches:
            written_ms = header.max_timestamp_ms
            for record in () if header.is_control else _readable_records(header, raw):
                state = None if record.value is None else state_of(record.value)
                if record.key is None or (state is None and record.value is not None):
                    continue
                before = last.get(record.key)
                if before is not None and before.state in PREPARED and state not in PREPARED:
                    self._end_decision(record.key, before, written_ms)
                if record.value is None or state is None:
                    last.pop(record.key, None)
                    continue
                latest_ms = written_ms if before is None else max(before.latest_ms, written_ms)
                previous_ms = None if before is None else before.written_ms
                last[record.key] = _NewestRecord(
                    value=record.value, state=state, written_ms=written_ms, latest_ms=latest_ms, previous_ms=previous_ms
                )
        for key, known in last.items():
            metadata = _decoded(key, known)
            if metadata is None:
                continue
            if metadata.next_producer_id != NO_PRODUCER_ID:
                self._before_rotation[metadata.next_producer_id] = metadata
            self._newest[metadata.producer_id] = Newest(
                metadata=metadata, written_ms=known.written_ms, latest_ms=known.latest_ms, previous_ms=known.previous_ms
            )
            if metadata.state is TxnState.ONGOING or metadata.state in PREPARED:
                self.open += 1
                self._open |= {(metadata.producer_id, where) for where in metadata.partitions}

    def _end_decision(self, key: bytes, prepared: _NewestRecord, ended_ms: int) -> None:
        metadata = _decoded(key, prepared)
        if metadata is not None:
            self.decided += 1
            self._check_decision(LoggedDecision(metadata, prepared.written_ms, ended_ms))

    def _check_decision(self, decision: LoggedDecision) -> None:
        """Record the partitions that lack the marker of a complete transaction, or have a marker of the other outcome."""
        metadata = decision.metadata
        for where in sorted(metadata.partitions):
            view = self._view_of(where)
            if view is None:
                continue
            answers = decision.prepared_ms > self._forgotten_ms and view.answers_for(decision)
            if not answers and not view.history.markers(metadata.producer_id):
                continue
            timed, is_contradicted = _take_marker_by_time(view, decision)
            if not answers:
                continue
            counted = _take_marker_in_order(view, decision)
            if timed and counted and not is_contradicted:
                continue
            key = (metadata.transactional_id, metadata.producer_id, metadata.producer_epoch, decision.commits, where)
            missing = self._missing.get(key)
            if missing is None:
                if len(self._missing) >= MAX_TORN:
                    self.omitted += 1
                    continue
                missing = self._missing[key] = _Missing()
            missing.timed += not timed
            missing.counted += not counted
            missing.is_contradicted |= is_contradicted

    def torn_transactions(self, partitions: Iterable[tuple[TopicPartition, PartitionView]]) -> list[TornTransaction]:
        """Return all torn transactions. Call this after all of the coordinators' partitions were read."""
        torn = [*self._decided_without_marker(), *self._committing_without_record()]
        for where, view in partitions:
            torn += self._ahead_of_coordinator(where, view)
            torn += self._open_without_coordinator(where, view)
        self.omitted += max(0, len(torn) - MAX_TORN)
        return torn[:MAX_TORN]

    def _decided_without_marker(self) -> Iterator[TornTransaction]:
        for (transactional_id, producer_id, epoch, commits, where), missing in self._missing.items():
            view = self._view_of(where)
            count = missing.timed
            if view is not None and view.has_other_clock:
                # Times cannot be compared, so markers are counted. In a log with gaps, compaction may have removed markers.
                count = missing.counted if view.history.is_contiguous else 0
            if not count and not missing.is_contradicted:
                continue
            reason = f"it was {'committed' if commits else 'aborted'} at epoch {epoch}, and the "
            if missing.is_contradicted:
                reason += "partition has the opposite marker"
            else:
                reason += "partition has no marker of it" + (f", {count} times" if count > 1 else "")
            yield TornTransaction(*where, producer_id, reason, transactional_id)

    def _committing_without_record(self) -> Iterator[TornTransaction]:
        """Find transactions that are prepared to commit but not complete, in partitions that have lost the transaction's records.

        Only transactions of version 2 are checked: with version 1 a transaction may have a partition without a record in it.
        """
        for known in self._newest.values():
            metadata = known.metadata
            decision = LoggedDecision(metadata, known.written_ms, known.written_ms)
            if metadata.state is not TxnState.PREPARE_COMMIT or not decision.has_own_epoch:
                continue
            for where in sorted(metadata.partitions):
                view = self._view_of(where)
                if view is None or not view.history.is_contiguous or not view.answers_for(decision):
                    continue
                producers = view.history.producers
                entry = producers.entries.get(metadata.producer_id)
                # The end of a transaction raises the epoch, so its records have the previous epoch. Records with a lower epoch
                # belong to an earlier transaction.
                is_written = entry is not None and (
                    entry.epoch >= metadata.producer_epoch
                    or (entry.epoch == metadata.producer_epoch - 1 and metadata.producer_id in producers.open_txns)
                )
                if not is_written:
                    reason = f"it commits at epoch {metadata.producer_epoch}, and the partition has no record of it"
                    yield TornTransaction(*where, metadata.producer_id, reason, metadata.transactional_id)

    def _ahead_of_coordinator(self, where: TopicPartition, view: PartitionView) -> Iterator[TornTransaction]:
        """Find producers of which a partition has newer data than the coordinator: the coordinator's log has lost its end."""
        for producer_id, entry in view.history.producers.entries.items():
            known = self._newest.get(producer_id)
            if known is None:
                continue
            metadata = known.metadata
            if entry.epoch > metadata.producer_epoch:
                reason = f"the partition has epoch {entry.epoch}, and the coordinator only epoch {metadata.producer_epoch}"
                yield TornTransaction(*where, producer_id, reason, metadata.transactional_id)
                continue
            # After the clock was set back, times cannot be compared until the clock has caught up.
            is_set_back = view.has_other_clock or known.written_ms < known.latest_ms
            if not is_set_back and entry.epoch == metadata.producer_epoch and _has_more_than_known(known, where, view):
                if self._is_added_by_start(producer_id, where, view):
                    continue
                reason = f"the partition has records of epoch {entry.epoch} after the last transaction that the coordinator knows"
                yield TornTransaction(*where, producer_id, reason, metadata.transactional_id)

    def _open_without_coordinator(self, where: TopicPartition, view: PartitionView) -> Iterator[TornTransaction]:
        """Find transactions that are open in a partition but not in any coordinator: their marker or their decision is lost."""
        for producer_id, offset in view.history.producers.open_txns.items():
            if (producer_id, where) not in self._open and not self._is_added_by_start(producer_id, where, view):
                yield TornTransaction(*where, producer_id, f"it is open since offset {offset}, and no coordinator knows it")

    def _is_added_by_start(self, producer_id: int, where: TopicPartition, view: PartitionView) -> bool:
        """Whether a starting broker adds the partition to the transaction that is open in it
        (`coordinator.transaction.lost_additions`)."""
        known = self._newest.get(producer_id)
        metadata = self._before_rotation.get(producer_id) if known is None else known.metadata
        epoch = open_epoch(view, producer_id)
        if metadata is None or epoch is None:
            return False

        def open_elsewhere(other: TopicPartition, other_id: int) -> int | None:
            other_view = self._view_of(other)
            return None if other_view is None else open_epoch(other_view, other_id)

        return is_lost(metadata, where, ProducerIdAndEpoch(producer_id, epoch), open_elsewhere)


def open_epoch(view: PartitionView, producer_id: int) -> int | None:
    """Return the epoch of a producer's open transaction in a partition; None if none is open."""
    producers = view.history.producers
    return producers.entries[producer_id].epoch if producer_id in producers.open_txns else None


def _has_more_than_known(known: Newest, where: TopicPartition, view: PartitionView) -> bool:
    """Whether a partition has data of a producer that is newer than the coordinator's newest record, at the same epoch."""
    metadata = known.metadata
    markers = view.history.markers(metadata.producer_id)
    if metadata.state not in PREPARED or where not in metadata.partitions:
        for written_ms, epoch, commits in map(unpack, reversed(markers)):
            if written_ms <= known.latest_ms:
                break
            # An abort marker does not prove that the coordinator lost records, because an admin client may have written it.
            if commits and epoch == metadata.producer_epoch:
                return True
        return False
    if known.previous_ms is None or known.previous_ms >= known.written_ms:
        # If the previous record is not known to be older, markers may belong to the previous transaction.
        return False
    # After a marker of the pending decision, a partition can have nothing of the producer except the same marker again.
    since = [packed for packed in markers if unpack(packed)[0] >= known.written_ms]
    is_open = metadata.producer_id in view.history.producers.open_txns
    return bool(since) and (is_open or any(map(has_data, since[1:])))


def _readable_records(header: BatchHeader, raw: Buffer) -> Iterator[Record]:
    """Yield the records of a batch before the first record that cannot be decoded. A starting coordinator also skips the rest."""
    with suppress(KafkaError):
        yield from records_of(raw, header)


def _decoded(key: bytes, last: _NewestRecord) -> TxnMetadata | None:
    try:
        return from_record(LogRecord(key, last.value))[1]
    except DecodeError:
        return None


def _take_marker_by_time(view: PartitionView, decision: LoggedDecision) -> tuple[bool, bool]:
    """Find the marker of a logged decision in a partition by time. Returns whether the marker exists, and whether a marker of the
    other outcome exists."""
    metadata = decision.metadata
    producer_id, epoch = metadata.producer_id, metadata.producer_epoch
    markers = view.history.markers(producer_id)
    cursor = view.timed.setdefault(producer_id, _MarkerCursor())
    before = cursor.at
    at = cursor.take(markers, epoch, decision.window, commits=decision.commits)
    if not decision.has_own_epoch:
        return at >= 0, False
    other = _MarkerCursor(before).take(markers, epoch, ANY_TIME, commits=not decision.commits)
    if at >= 0 and decision.prepared_ms <= decision.ended_ms:
        view.has_other_clock |= not decision.prepared_ms <= unpack(markers[at])[0] <= decision.ended_ms
    # An abort marker next to a commit marker may come from an admin client (WriteTxnMarkers), so it is no contradiction.
    return at >= 0, other >= 0 and (at < 0 or not decision.commits)


def _take_marker_in_order(view: PartitionView, decision: LoggedDecision) -> bool:
    """Assign the next marker with the decision's epoch and outcome, whatever its time. Returns whether such a marker exists."""
    metadata = decision.metadata
    cursor = view.counted.setdefault(metadata.producer_id, _MarkerCursor())
    markers = view.history.markers(metadata.producer_id)
    return cursor.take(markers, metadata.producer_epoch, ANY_TIME, commits=decision.commits) >= 0
