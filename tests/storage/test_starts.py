"""A start after a crash, on a disk that is full, or killed at each step of its own: the log is what it was, then and later."""

from __future__ import annotations

from contextlib import suppress

import pytest

from storage.config import LogConfig
from storage.filesystem import Filesystem
from storage.log import Log
from storage.log_dir import LogDirectory
from storage.memory_filesystem import MemoryFilesystem
from storage.recovery import open_log
from storage.settling import settle
from storage.steps import run
from tests.storage.faults import FaultyFilesystem
from tests.storage.logs import NOW_MS, Logs, end, put, state

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100)
DIRECTORY = "/d/t-0"
MOST_STEPS_OF_A_START = 60


def written() -> MemoryFilesystem:
    """What a kill leaves of some segments with aborted transactions and leader epochs; one transaction is open."""
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
def test_a_start_needs_no_room_and_a_clean_stop_brings_the_files_up_to_date(lost: str) -> None:
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
    assert known(opened(on(fs.copy()))) == ended, "killed once more, and started with room"
    log.close()
    files = [path for path in fs.files if path.endswith(".txnindex")]
    assert sum(len(fs.files[path]) for path in files) == 34 * sum(len(list(s.txn_index)) for s in log.segments)
    again = Logs(fs, DIRECTORY).new(SMALL)
    report = open_log(again, NOW_MS, clean=True, recovery_point=log.log_end_offset)
    assert report.segments_recovered == 0, "the files of all indexes are there"
    assert known(again) == ended


@pytest.mark.entry("STO-06", "STO-01", "RDC-08")
@pytest.mark.parametrize("broken", [".txnindex", ".timeindex", ".index", ""])
@pytest.mark.parametrize("is_below_the_recovery_point", [True, False])
def test_a_start_that_is_killed_is_made_good_by_the_next(broken: str, is_below_the_recovery_point: bool) -> None:
    """Below the recovery point only what has a bad index is recovered: what one start removes, the next must miss."""
    left = written()
    log = opened(left)
    expected, point = known(log), log.log_end_offset if is_below_the_recovery_point else 0
    log.close()
    if broken:
        path = next(path for path in sorted(left.files) if path.endswith(broken) and left.files[path])
        left.write_file(path, left.files[path] + b"\1")
    for nth in range(MOST_STEPS_OF_A_START):
        fs = on(left)
        fs.refuse_the(nth)
        with suppress(OSError):
            opened(fs, recovery_point=point)
        killed = fs.copy()
        assert known(opened(killed, recovery_point=point)) == expected, f"killed at step {nth}"
        if not fs.refused:
            break
    else:
        pytest.fail("a start without an end")


@pytest.mark.entry("STO-11", "RDC-08")
def test_a_recovery_point_stays_below_indexes_that_could_not_be_written() -> None:
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
