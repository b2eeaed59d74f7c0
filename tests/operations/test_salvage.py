"""``ottla recover``: which batches of a damaged log are discarded, and which are kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.operations.salvage import DamagedSegment, examine, give_up
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.records import batches
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.last_stop import CLEAN_FILE
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDirectory
from ottla.storage.reading import read
from ottla.storage.segment import LOG_SUFFIX
from tests.storage.harm import CUTS, HARMS, harmed
from tests.support.logs import NOW_MS, end, put

DIRECTORY = "/data"
CONFIG = LogConfig(segment_bytes=1_500, index_interval_bytes=200)
NUMBER = 5
BATCHES = 60


def opened(fs: MemoryFilesystem) -> tuple[LogDirectory, Log]:
    directory = LogDirectory(fs, DIRECTORY)
    directory.acquire()
    log, report = directory.open("t", 0, CONFIG, NOW_MS)
    assert log.offline_reason is None
    assert not report.losses
    if log.high_watermark < log.log_end_offset:
        log.move_high_watermark(log.log_end_offset)
    directory.loaded()
    return directory, log


def filled(fs: MemoryFilesystem, *, clean: bool = True) -> list[str]:
    """Write a log of several segments. Without ``clean``, the broker is killed after all data was synced.

    Returns the paths of the segments.
    """
    directory, log = opened(fs)
    for number in range(BATCHES):
        put(log, now_ms=NOW_MS + number)
    directory.close()
    if not clean:
        fs.unlink(f"{DIRECTORY}/{CLEAN_FILE}")
    return [segment.path(LOG_SUFFIX) for segment in log.segments]


def visible(log: Log) -> Iterator[int]:
    """Yield the offsets of the records that a consumer receives."""
    offset = 0
    while offset < log.log_end_offset:
        headers = [header for _, header in batches(read(log, offset, 1 << 20, committed=True).data)]
        for header in headers:
            yield from range(header.base_offset, header.base_offset + header.record_count)
        offset = headers[-1].next_offset


def damage(fs: MemoryFilesystem, path: str, kind: str, number: int = NUMBER) -> tuple[int, int]:
    raw, position, header = harmed(bytes(fs.files[path]), kind, number)
    fs.write_file(path, raw)
    return position, header.base_offset


def given_up(fs: MemoryFilesystem) -> list[DamagedSegment]:
    found = examine(fs, DIRECTORY, set())
    for damaged in found:
        give_up(fs, DIRECTORY, damaged)
    assert examine(fs, DIRECTORY, set()) == []
    return found


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "kill"])
@pytest.mark.parametrize("at", [0, 1, -1], ids=["first segment", "closed segment", "active segment"])
@pytest.mark.parametrize("kind", HARMS)
def test_recover_command_discards_only_damaged_batches(fs: MemoryFilesystem, kind: str, at: int, clean: bool) -> None:
    path = filled(fs, clean=clean)[at]
    position, offset = damage(fs, path, kind)
    ((segment),) = given_up(fs)
    (hole,) = segment.holes
    assert (segment.where, segment.path) == (("t", 0), path)
    lost = range(offset, offset + (2 if kind == "zeros" else 1))
    assert (hole.begin, hole.first_offset, hole.next_offset) == (position, lost.start, lost.stop)
    directory, log = opened(fs)
    assert list(visible(log)) == [offset for offset in range(BATCHES) if offset not in lost]
    assert log.log_end_offset == BATCHES
    assert log.damage is None
    put(log)
    directory.close()
    assert list(visible(opened(fs)[1])) == [offset for offset in range(BATCHES + 1) if offset not in lost]


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "kill"])
@pytest.mark.parametrize("has_failed_start", [False, True])
@pytest.mark.parametrize("kind", CUTS)
def test_recover_command_pads_a_truncated_closed_segment(
    fs: MemoryFilesystem, kind: str, has_failed_start: bool, clean: bool
) -> None:
    paths = filled(fs, clean=clean)
    position, offset = damage(fs, paths[1], kind)
    first = offset if kind != "emptied" else int(paths[1][-24:-4])
    if has_failed_start:
        directory = LogDirectory(fs, DIRECTORY)
        directory.acquire()
        assert directory.open("t", 0, CONFIG, NOW_MS)[0].is_offline
        directory.loaded()
        directory.close()
    (hole,) = given_up(fs)[0].holes
    following = int(paths[2][-24:-4])
    assert (hole.begin, hole.first_offset, hole.next_offset) == (0 if kind == "emptied" else position, first, following)
    assert list(visible(opened(fs)[1])) == [*range(first), *range(following, BATCHES)]


@pytest.mark.parametrize("kind", ["cut inside a batch", "cut between two batches"])
def test_recover_command_does_not_reuse_synced_offsets(fs: MemoryFilesystem, kind: str) -> None:
    """Consumers may have read the lost records and committed later offsets, so recovery must not reuse the lost offsets."""
    path = filled(fs)[-1]
    _, offset = damage(fs, path, kind)
    (hole,) = given_up(fs)[0].holes
    assert (hole.first_offset, hole.next_offset) == (offset, BATCHES)
    _, log = opened(fs)
    assert log.log_end_offset == BATCHES
    assert list(visible(log)) == list(range(offset))


def test_recover_command_does_not_report_an_incomplete_last_batch_as_damage(fs: MemoryFilesystem) -> None:
    path = filled(fs, clean=False)[-1]
    raw = bytes(fs.files[path])
    fs.write_file(path, raw + raw[:40])
    assert examine(fs, DIRECTORY, set()) == []


def test_recover_command_discards_several_damaged_ranges_of_a_log_together(fs: MemoryFilesystem) -> None:
    paths = filled(fs)
    harms = [(paths[1], "wrong CRC", 9), (paths[1], "length 0", 2), (paths[2], "huge length", NUMBER)]
    lost = {damage(fs, path, kind, number)[1] for path, kind, number in harms}
    found = given_up(fs)
    assert [len(segment.holes) for segment in found] == [2, 1]
    assert list(visible(opened(fs)[1])) == [offset for offset in range(BATCHES) if offset not in lost]


@pytest.mark.parametrize("has_failed_start", [False, True])
@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "kill"])
def test_recover_command_keeps_an_aborted_transaction_aborted_when_its_marker_is_discarded(
    fs: MemoryFilesystem, clean: bool, has_failed_start: bool
) -> None:
    """Recovery writes the lost abort marker again. Without the marker, clients would also skip later committed records."""
    directory, log = opened(fs)
    put(log, pid=1, epoch=0, sequence=0, transactional=True)
    for _ in range(3):
        put(log)
    marker = end(log, 1, commit=False).base_offset
    put(log, pid=1, epoch=0, sequence=1, transactional=True)
    end(log, 1, commit=True)
    while len(log.segments) < 3:
        put(log)
    path = log.segments[0].path(LOG_SUFFIX)
    before = log.log_end_offset, list(log.segments[0].txn_index)
    directory.close()
    if not clean:
        fs.unlink(f"{DIRECTORY}/{CLEAN_FILE}")
    if has_failed_start:
        # A start before the damage leaves the indexes unchanged.
        opened(fs)[0].close()
    damage(fs, path, "zeros", marker)
    given_up(fs)
    _, log = opened(fs)
    stored = [header for _, header in batches(bytes(fs.files[path]))]
    (again,) = [header for header in stored if header.base_offset == marker]
    assert (again.is_control, again.producer_id, again.last_offset) == (True, 1, marker)
    assert (log.log_end_offset, list(log.segments[0].txn_index)) == before
    assert log.last_stable_offset == log.log_end_offset


def test_recover_command_examines_only_the_requested_partitions(fs: MemoryFilesystem) -> None:
    damage(fs, filled(fs)[1], "length 0")
    fs.write_file(f"{DIRECTORY}/u-0/{0:020d}.log", b"")
    assert examine(fs, DIRECTORY, {("u", 0)}) == []
    assert len(examine(fs, DIRECTORY, {("t", 0)})) == 1


def test_recover_command_does_not_discard_cluster_metadata(fs: MemoryFilesystem) -> None:
    path = filled(fs)[1]
    damage(fs, path, "length 0")
    fs.write_file(f"{DIRECTORY}/{METADATA_TOPIC}-0/{path.rpartition('/')[2]}", bytes(fs.files[path]))
    assert {segment.where: segment.may_be_changed for segment in examine(fs, DIRECTORY, set())} == {
        ("t", 0): True,
        (METADATA_TOPIC, 0): False,
    }
