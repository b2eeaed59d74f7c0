"""Idempotence checks of a partition (section A of the rules: IDM)."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import build_batch, read_header
from ottla.protocol.steps import run
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.log_dir import LogDirectory
from ottla.storage.producer_state import MAX_UNVERIFIED, ProducerState
from tests.support.logs import NOW_MS, SMALL, Logs, end, put


def refused(code: Code) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, match=code.name)


def test_producer_sequences_must_be_contiguous(logs: Logs) -> None:
    log = logs.new()
    assert put(log, 3, pid=1, epoch=0, sequence=0).base_offset == 0
    assert put(log, 2, pid=1, epoch=0, sequence=3).base_offset == 3


def test_duplicates_of_the_last_five_batches_of_a_producer_are_recognized(logs: Logs) -> None:
    log = logs.new()
    firsts = [put(log, 2, pid=1, epoch=0, sequence=2 * i) for i in range(6)]
    with refused(Code.OUT_OF_ORDER_SEQUENCE_NUMBER):
        put(log, 2, pid=1, epoch=0, sequence=0)
    for i in range(1, 6):
        again = put(log, 2, pid=1, epoch=0, sequence=2 * i)
        assert again.is_duplicate
        assert again.base_offset == firsts[i].base_offset
    assert log.log_end_offset == 12


def test_producer_sequence_gap_is_refused_and_changes_nothing(logs: Logs) -> None:
    log = logs.new()
    put(log, 10, pid=1, epoch=0, sequence=0)
    with refused(Code.OUT_OF_ORDER_SEQUENCE_NUMBER):
        put(log, 1, pid=1, epoch=0, sequence=11)
    assert log.log_end_offset == 10
    assert put(log, 1, pid=1, epoch=0, sequence=10).base_offset == 10


def test_first_sequence_of_a_new_producer_epoch_must_be_zero(logs: Logs) -> None:
    log = logs.new()
    put(log, 1, pid=1, epoch=0, sequence=0)
    with refused(Code.OUT_OF_ORDER_SEQUENCE_NUMBER):
        put(log, 1, pid=1, epoch=1, sequence=4)
    put(log, 1, pid=1, epoch=1, sequence=0)
    with refused(Code.INVALID_PRODUCER_EPOCH):
        put(log, 1, pid=1, epoch=0, sequence=1)


def test_producer_sequences_wrap_at_two_to_the_31(logs: Logs) -> None:
    log = logs.new()
    put(log, 1, pid=1, epoch=0, sequence=0x7FFFFFFD)
    wrapping = put(log, 5, pid=1, epoch=0, sequence=0x7FFFFFFE)
    assert put(log, 5, pid=1, epoch=0, sequence=0x7FFFFFFE).base_offset == wrapping.base_offset
    assert put(log, 1, pid=1, epoch=0, sequence=3).base_offset == 6


def test_unknown_producer_may_start_at_a_sequence_above_zero_only_without_a_transaction(logs: Logs) -> None:
    log = logs.new()
    put(log, 1, pid=1, epoch=0, sequence=7)
    with refused(Code.OUT_OF_ORDER_SEQUENCE_NUMBER):
        put(log, 1, pid=2, epoch=0, sequence=7, transactional=True, implicit_add=True)


def test_idle_producers_expire_unless_their_transaction_is_open(logs: Logs) -> None:
    log = logs.new()
    put(log, 1, pid=1, epoch=0, sequence=0)
    put(log, 1, pid=2, epoch=0, sequence=0, transactional=True)
    latest = max(e.last_timestamp_ms for e in log.producers.entries.values())
    run(log.producers.remove_expired(latest + 1_000, 1_000, 10))
    assert set(log.producers.entries) == {2}


def test_non_transactional_batch_inside_a_transaction_is_refused(logs: Logs) -> None:
    log = logs.new()
    put(log, 1, pid=1, epoch=0, sequence=0, transactional=True)
    with refused(Code.INVALID_TXN_STATE):
        put(log, 1, pid=1, epoch=0, sequence=1)


@pytest.mark.parametrize("version", [0, 2])
def test_transaction_marker_with_an_old_producer_epoch_is_fenced(logs: Logs, version: int) -> None:
    log = logs.new()
    put(log, 1, pid=1, epoch=5, sequence=0, transactional=True)
    with refused(Code.INVALID_PRODUCER_EPOCH):
        end(log, 1, commit=True, epoch=4, version=version)
    if version == 2:
        with refused(Code.INVALID_PRODUCER_EPOCH):
            end(log, 1, commit=True, epoch=5, version=version)
    end(log, 1, commit=True, epoch=6, version=version)
    # The coordinator repeats a marker after a lost response. No transaction is open, so the repeated marker has no effect.
    end(log, 1, commit=True, epoch=6, version=version)


def test_transaction_marker_with_an_old_coordinator_epoch_is_fenced(logs: Logs) -> None:
    log = logs.new()
    put(log, 1, pid=1, epoch=0, sequence=0, transactional=True)
    end(log, 1, commit=True, coordinator_epoch=3)
    with refused(Code.TRANSACTION_COORDINATOR_FENCED):
        end(log, 1, commit=True, coordinator_epoch=2)


def test_transaction_marker_with_a_new_producer_epoch_resets_the_sequence(logs: Logs) -> None:
    log = logs.new()
    put(log, 3, pid=1, epoch=0, sequence=0, transactional=True)
    end(log, 1, commit=True, epoch=1, version=2)
    with refused(Code.OUT_OF_ORDER_SEQUENCE_NUMBER):
        put(log, 1, pid=1, epoch=1, sequence=3, transactional=True)
    put(log, 1, pid=1, epoch=1, sequence=0, transactional=True)


def unverified(state: ProducerState, producer_id: int, now_ms: int) -> None:
    raw = build_batch([(None, b"v")], NOW_MS, producer_id=producer_id, producer_epoch=0, base_sequence=3, transactional=True)
    state.note_unverified(read_header(raw), now_ms, implicit_add=False)


def test_number_of_remembered_producer_ids_with_refused_batches_is_bounded() -> None:
    state = ProducerState()
    for producer_id in range(MAX_UNVERIFIED + 50):
        unverified(state, producer_id, NOW_MS)
    assert list(state._unverified) == list(range(50, MAX_UNVERIFIED + 50))


def test_refused_producer_ids_expire_in_an_empty_log() -> None:
    directory = LogDirectory(MemoryFilesystem(), "d")
    log = directory.create("t", 0, SMALL, bytes(16))
    unverified(log.producers, 7, NOW_MS)
    run(directory.expire_producers(NOW_MS + 10, 11, 100))
    assert log.producers.has_any
    run(directory.expire_producers(NOW_MS + 11, 11, 100))
    assert not log.producers.has_any
