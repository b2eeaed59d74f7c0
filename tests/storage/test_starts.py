"""Recovery after a crash, on a full disk or killed at each of its disk operations, restores the same log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest

from ottla.protocol.steps import run
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.background_sync import settle
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Filesystem
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDirectory
from ottla.storage.recovery import open_log
from ottla.storage.txn_index import AbortedTxn, TxnIndex
from tests.support.logs import NOW_MS, Logs, end, put, state

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100)
DIRECTORY = "/d/t-0"
MAX_STEPS_OF_A_START = 60


def written() -> MemoryFilesystem:
    """Return the files of a killed broker: several segments with aborted transactions, leader epochs and an open transaction."""
    fs = FaultyFilesystem()
    log = Logs(fs, DIRECTORY).new(SMALL)
    for n in range(24):
        log.leader_epoch = n // 8
        put(log, 2, pid=n % 3, epoch=0, sequence=2 * (n // 3), transactional=True)
        end(log, n % 3, commit=n % 4 == 0)
    put(log, 1, pid=7, epoch=0, sequence=0, transactional=True)
    assert len(log.segments) > 4
    return fs.copy()


def on(left: MemoryFilesystem) -> FaultyFilesystem:
    fs = FaultyFilesystem()
    for path, content in left.files.items():
        fs.write_file(path, content)
    return fs


def opened(fs: Filesystem, *, clean: bool = False, recovery_point: int = 0) -> Log:
    log = Logs(fs, DIRECTORY).new(SMALL)
    open_log(log, NOW_MS, clean=clean, recovery_point=recovery_point)
    return log


def known(log: Log) -> tuple[object, ...]:
    return (*state(log), list(log.epochs.entries))


@pytest.mark.entry("STO-13", "STO-21", "RDC-08")
@pytest.mark.parametrize("lost", ["", "leader-epoch-checkpoint"])
def test_log_opens_on_a_full_disk_and_a_clean_shutdown_updates_its_files(lost: str) -> None:
    left = written()
    expected = known(opened(on(left)))
    fs = on(left)
    if lost:
        fs.unlink(f"{DIRECTORY}/{lost}")
    fs.refuse_everything()
    log = opened(fs)
    assert fs.refused
    assert known(log) == expected
    with pytest.raises(OSError, match="No space"):
        end(log, 7, commit=False)
    assert known(log) == expected
    fs.refuse_nothing()
    end(log, 7, commit=False)
    ended = known(log)
    assert known(opened(on(fs.copy()))) == ended, "killed, and started again with free space"
    log.close()
    files = [path for path in fs.files if path.endswith(".txnindex")]
    assert sum(len(fs.files[path]) for path in files) == 34 * sum(len(list(s.txn_index)) for s in log.segments)
    again = Logs(fs, DIRECTORY).new(SMALL)
    report = open_log(again, NOW_MS, clean=True, recovery_point=log.log_end_offset)
    assert report.segments_recovered == 0, "all index files exist"
    assert known(again) == ended


def killed_at(fs: FaultyFilesystem, nth: int, start: Callable[[], object]) -> bool:
    """Run ``start`` and kill it after ``nth`` disk operations. Returns whether it was killed before it ended."""
    last = fs.writes + nth
    fs.refuses = lambda number, kind, path: number > last
    with suppress(OSError):
        start()
    return fs.refused > 0


@pytest.mark.entry("STO-06", "STO-01", "RDC-08")
@pytest.mark.parametrize("broken", [".txnindex", ".timeindex", ".index", ""])
@pytest.mark.parametrize("is_below_the_recovery_point", [True, False])
def test_next_start_completes_a_log_recovery_that_was_killed(broken: str, is_below_the_recovery_point: bool) -> None:
    """Below the recovery point only segments with a bad index are recovered.

    If a killed start has removed an index, the next start must notice that the index is missing.
    """
    left = written()
    log = opened(left)
    expected, point = known(log), log.log_end_offset if is_below_the_recovery_point else 0
    log.close()
    if broken:
        path = next(path for path in sorted(left.files) if path.endswith(broken) and left.files[path])
        left.write_file(path, left.files[path] + b"\1")
    for nth in range(MAX_STEPS_OF_A_START):
        fs = on(left)
        was_killed = killed_at(fs, nth, partial(opened, fs, recovery_point=point))
        killed = fs.copy()
        assert not missing_aborts(killed, log), f"killed at step {nth}: Apache Kafka would accept an incomplete index"
        assert known(opened(killed, recovery_point=point)) == expected, f"killed at step {nth}"
        if not was_killed:
            break
    else:
        pytest.fail("the start does not end")


def missing_aborts(fs: Filesystem, log: Log) -> set[tuple[int, int]]:
    """Return aborted transactions missing from a transaction index that Apache Kafka would use.

    Kafka trusts the indexes of a segment if its offset index file exists (LogSegment.sanityCheck).
    """
    lacking: set[tuple[int, int]] = set()
    for base, entries in _trusted(fs):
        of_the_segment = next(list(s.txn_index) for s in log.segments if s.base_offset == base)
        lacking |= {(e.producer_id, e.first_offset) for e in of_the_segment} - {(e.producer_id, e.first_offset) for e in entries}
    return lacking


def _trusted(fs: Filesystem) -> Iterator[tuple[int, list[AbortedTxn]]]:
    names = fs.list_dir(DIRECTORY)
    bases = [int(name.partition(".")[0]) for name in names if name.endswith(".log")]
    for base in bases[:-1]:
        if f"{base:020}.index" in names:
            index = TxnIndex(fs, f"{DIRECTORY}/{base:020}.txnindex")
            if index.load(base):
                yield base, list(index)


@pytest.mark.entry("STO-04", "STO-12")
@pytest.mark.parametrize("is_compacted", [True, False])
def test_interrupted_truncation_in_log_recovery_is_repeated_and_reported_again(is_compacted: bool) -> None:
    config = LogConfig(segment_bytes=700, index_interval_bytes=100, cleanup_policy=("compact",) if is_compacted else ("delete",))
    left = written()
    path = sorted(path for path in left.files if path.endswith(".log"))[1]
    left.write_file(path, left.files[path][:-1] + bytes([left.files[path][-1] ^ 1]))

    def cut(fs: Filesystem) -> tuple[int, list[int], bool]:
        log = Logs(fs, DIRECTORY).new(config)
        report = open_log(log, NOW_MS, clean=False)
        return log.log_end_offset, [segment.base_offset for segment in log.segments], bool(report.losses)

    end_offset, bases, is_told = cut(on(left))
    assert is_told
    is_cut = False
    for nth in range(4 * MAX_STEPS_OF_A_START):
        fs = on(left)
        was_killed = killed_at(fs, nth, partial(cut, fs))
        is_cut = is_cut or len(fs.files[path]) < len(left.files[path])
        assert cut(on(fs.copy())) == (end_offset, bases, not is_cut), f"killed at step {nth}"
        if not was_killed:
            break
    else:
        pytest.fail("the start does not end")
    assert is_cut


@pytest.mark.entry("STO-13")
def test_recovery_point_advances_only_after_the_leader_epoch_checkpoint_is_written() -> None:
    fs = on(written())
    expected = opened(on(written())).epochs.entries
    fs.unlink(f"{DIRECTORY}/leader-epoch-checkpoint")
    fs.refuse_everything()
    log = opened(fs)
    fs.refuse_nothing()
    run(settle([log]))
    assert log.recovery_point == log.active.base_offset
    assert opened(on(fs.copy()), recovery_point=log.recovery_point).epochs.entries == expected


@pytest.mark.entry("STO-18", "RDC-08")
def test_aborted_transactions_are_synced_before_the_recovery_point_advances() -> None:
    """A power cut may keep one newly written file and lose another, so the transaction index is synced first."""
    left = written()
    log = opened(left)
    expected, point = known(log), log.log_end_offset
    log.close()
    path = next(path for path in sorted(left.files) if path.endswith(".txnindex"))
    left.write_file(path, left.files[path] + b"\1")

    class Ordered(FaultyFilesystem):
        def sync_file(self, path: str) -> None:
            super().sync_file(path)
            order.append(path)

        def write(self, kind: str, path: str) -> None:
            super().write(kind, path)
            if kind == "append" and path.endswith(".timeindex"):
                order.append(path)

    order: list[str] = []
    fs = Ordered()
    for name, content in left.files.items():
        fs.write_file(name, content)
    assert known(opened(fs, recovery_point=point)) == expected
    assert order[:2] == [path, path.replace(".txnindex", ".timeindex")]


@pytest.mark.entry("STO-11", "RDC-08")
def test_recovery_point_does_not_advance_while_indexes_cannot_be_written() -> None:
    fs = on(written())
    expected = known(opened(fs))
    fs = on(written())
    directory = LogDirectory(fs, "/d")
    directory.acquire()
    fs.refuse_everything()
    log, _ = directory.open("t", 0, SMALL, NOW_MS)
    refused: list[Log] = []
    run(settle([log], lambda log, error: refused.append(log)))
    assert (refused, log.recovery_point) == ([log], 0)
    fs.refuse_nothing()
    run(settle([log]))
    assert log.recovery_point == log.active.base_offset
    assert known(opened(fs.copy(), recovery_point=log.recovery_point)) == expected
