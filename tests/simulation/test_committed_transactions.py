"""Each rule of `CommittedTransactions` accepts valid logs and reports violations."""

from __future__ import annotations

from collections import Counter

from ottla.coordinator.transaction.metadata import TxnMetadata, to_record
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.records import EndTxnMarker, assign, build_batch, build_marker, read_header
from ottla.protocol.transaction_states import TxnState
from ottla.simulation.committed_transactions import CommittedTransactions

STATES, A, B = (TRANSACTION_TOPIC, 0), ("a", 0), ("b", 0)
PRODUCER, EPOCH = 7, 3


class Logs:
    """Committed logs to which a test appends one batch at a time."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.reached: Counter[str] = Counter()
        self.judge = CommittedTransactions(self.findings.append, self.reached, lambda name, metadata: None)
        self.ends: Counter[tuple[str, int]] = Counter()

    def append(self, where: tuple[str, int], batch: bytearray, leader_epoch: int = 0) -> None:
        assign(batch, self.ends[where], leader_epoch)
        header = read_header(batch)
        self.ends[where] = header.next_offset
        self.judge.note(where, header, bytes(batch))

    def state(self, state: TxnState, *partitions: tuple[str, int], leader_epoch: int = 0) -> None:
        metadata = TxnMetadata(
            transactional_id="shop",
            producer_id=PRODUCER,
            producer_epoch=EPOCH,
            timeout_ms=1_000,
            state=state,
            partitions=frozenset(partitions),
        )
        record = to_record(metadata, flexible=False)
        self.append(STATES, build_batch([(record.key, record.value)], 1), leader_epoch)

    def write(self, where: tuple[str, int], epoch: int = EPOCH) -> None:
        records = [(None, b"v")] * 2
        self.append(
            where,
            build_batch(records, 1, producer_id=PRODUCER, producer_epoch=epoch, base_sequence=0, transactional=True),
        )

    def mark(self, where: tuple[str, int], *, commit: bool = True, coordinator_epoch: int = 0) -> None:
        self.append(where, build_marker(EndTxnMarker(PRODUCER, EPOCH, commit, coordinator_epoch), 1))

    def decided(self, *partitions: tuple[str, int], leader_epoch: int = 0) -> None:
        self.state(TxnState.ONGOING, *partitions)
        for where in partitions:
            self.write(where)
        self.state(TxnState.PREPARE_COMMIT, *partitions, leader_epoch=leader_epoch)


def test_marker_checker_reports_nothing_for_a_complete_transaction() -> None:
    logs = Logs()
    logs.decided(A, B)
    assert logs.judge.stable_offset(A, 2, 0) == 0
    for where in (A, B):
        logs.mark(where)
    assert logs.judge.stable_offset(A, 3, 0) == 3
    logs.state(TxnState.COMPLETE_COMMIT)
    logs.judge.check_completed()
    logs.judge.check_acknowledged([((PRODUCER, EPOCH), True)])
    assert logs.findings == []


def test_marker_checker_reports_a_batch_unknown_to_the_coordinator() -> None:
    logs = Logs()
    logs.state(TxnState.ONGOING, A)
    logs.write(A)
    logs.write(B)
    logs.write(A, EPOCH + 1)
    assert logs.findings == [
        "a batch of (7, 3) in ('b', 0) at 0: no coordinator has added the partition",
        "a batch of (7, 4) in ('a', 0) at 2: no coordinator has added the partition",
    ]


def test_marker_checker_reports_markers_without_a_matching_decision() -> None:
    logs = Logs()
    logs.state(TxnState.ONGOING, A)
    logs.write(A)
    logs.mark(A)
    logs.state(TxnState.PREPARE_COMMIT, A)
    logs.mark(A, commit=False)
    assert logs.findings == [
        "a marker of (7, 3) in ('a', 0) says commit=True; nothing was decided",
        "a marker of (7, 3) in ('a', 0) says commit=False; a commit was decided",
    ]


def test_marker_checker_reports_wrong_coordinator_epochs() -> None:
    logs = Logs()
    logs.decided(A, leader_epoch=5)
    logs.mark(A, coordinator_epoch=5)
    logs.mark(A, coordinator_epoch=6)
    assert logs.findings == []
    assert logs.reached == {"a marker of a newer coordinator": 1}
    logs.mark(A, coordinator_epoch=5)
    assert logs.findings == ["a marker of (7, 3) in ('a', 0) by coordinator epoch 5, after 6"]
    logs.mark(A, coordinator_epoch=0)
    assert logs.findings[1] == "a marker of (7, 3) in ('a', 0) by coordinator epoch 0; epoch 5 decided the transaction"


def test_marker_checker_reports_a_completion_with_missing_markers() -> None:
    logs = Logs()
    logs.decided(A, B)
    logs.mark(A)
    logs.state(TxnState.COMPLETE_COMMIT)
    logs.judge.check_completed()
    assert logs.findings == ["the transaction of (7, 3) is complete, but ('b', 0) has no marker"]
    logs.judge.check_completed()
    assert len(logs.findings) == 1, "a finding is reported once"


def test_marker_checker_reports_nothing_for_a_partition_with_deleted_records() -> None:
    logs = Logs()
    logs.decided(A)
    logs.judge.skipped(A)
    logs.state(TxnState.COMPLETE_COMMIT)
    logs.judge.check_completed()
    assert logs.findings == []
    assert logs.judge.stable_offset(A, 5, 0) is None


def test_marker_checker_reports_an_end_txn_response_without_a_matching_decision() -> None:
    logs = Logs()
    acknowledged = [((PRODUCER, EPOCH), True)]
    logs.judge.check_acknowledged(acknowledged)
    assert logs.findings == ["a client of (7, 3) received commit=True; nothing was decided"]
    assert acknowledged == []
    logs.decided(A)
    logs.judge.check_acknowledged([((PRODUCER, EPOCH), False)])
    assert logs.findings[1] == "a client of (7, 3) received commit=False; a commit was decided"
