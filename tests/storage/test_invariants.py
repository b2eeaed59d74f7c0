"""The invariant checks of a log report broken state, which tests cause by disabled validations or by changing the state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.protocol.records import EndTxnMarker, build_batch, read_header
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.invariants import check_log
from ottla.storage.log import Log
from ottla.storage.producer_state import ProducerState


def made() -> Log:
    return Log(MemoryFilesystem(), "/t-0", "t", 0, LogConfig())


def append(log: Log, epoch: int, sequence: int = 0, producer_id: int = 7) -> None:
    batch = build_batch(
        [(None, b"v")], 1, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    log.append_as_leader(batch, read_header(batch), 1)
    log.move_high_watermark(log.log_end_offset)


def mark(log: Log, epoch: int, coordinator_epoch: int = 1) -> None:
    log.append_marker(EndTxnMarker(7, epoch, True, coordinator_epoch), 1, 0)
    log.move_high_watermark(log.log_end_offset)


def opened() -> Log:
    log = made()
    append(log, 3)
    append(log, 0, producer_id=8)
    check_log(log)
    return log


def test_append_with_a_decreased_producer_or_coordinator_epoch_fails_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened()
    monkeypatch.setattr(ProducerState, "check_data", lambda *_, **__: None)
    monkeypatch.setattr(ProducerState, "check_marker", lambda *_: None)
    with pytest.raises(AssertionError, match="after epoch 3"):
        append(log, 2)
    with pytest.raises(AssertionError, match="after epoch 3"):
        mark(log, 2)
    mark(log, 3, coordinator_epoch=5)
    with pytest.raises(AssertionError, match="after 5"):
        mark(log, 3, coordinator_epoch=4)
    assert log.log_end_offset == 3


def test_repeated_transaction_marker_violates_no_log_invariant() -> None:
    log = opened()
    for _ in range(2):
        mark(log, 3)
    assert log.log_end_offset == 4


def test_invariant_check_reports_a_decreased_log_end_or_log_start_above_high_watermark() -> None:
    log = opened()
    with pytest.raises(AssertionError, match="no new start"):
        log.delete_records(3)
    log.delete_records(2)
    with pytest.raises(AssertionError, match="no new end"):
        log.advance(2)


BREAKS: list[tuple[str, Callable[[Log], object]]] = [
    ("LSO, high watermark", lambda log: setattr(log, "high_watermark", log.log_end_offset + 1)),
    ("LSO, high watermark", lambda log: setattr(log, "log_start_offset", log.log_end_offset + 1)),
    ("open by producer", lambda log: log.producers.open_txns.pop(7)),
    ("open by producer", lambda log: setattr(log.producers.entries[7], "txn_first_offset", -1)),
    ("out of order", lambda log: log.producers.open_txns.update({7: log.producers.open_txns.pop(7)})),
    ("not in", lambda log: (setattr(log.producers.entries[8], "txn_first_offset", 9), log.producers.open_txns.update({8: 9}))),
]


@pytest.mark.parametrize(("says", "fault"), BREAKS)
def test_invariant_check_reports_broken_log_invariants(says: str, fault: Callable[[Log], object]) -> None:
    log = opened()
    fault(log)
    with pytest.raises(AssertionError, match=says):
        check_log(log)
