"""Damage in the middle of a log: no reader treats it as the end of the segment, or skips it without an error.

Apache Kafka 4.4.0 answers a fetch or a lookup by timestamp with CORRUPT_MESSAGE if it reaches a batch length of 0 or less. If a
batch length exceeds the rest of the file, Kafka skips the rest of the segment without an error. Kafka leaves the detection of all
other damage to its clients.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import batches
from ottla.protocol.steps import run
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Damaged
from ottla.storage.following import append_as_follower
from ottla.storage.log import Log
from ottla.storage.log_cleaner import clean, filthiest
from ottla.storage.reading import all_batches, offset_for_timestamp, read
from ottla.storage.retention import delete_old
from ottla.storage.segment import LOG_SUFFIX, Segment
from ottla.storage.truncation import truncate_to
from ottla.storage.walk import DamagedBatch
from tests.storage.harm import CUTS, HARMS, harmed
from tests.support.logs import NOW_MS, Logs, put

CONFIG = LogConfig(segment_bytes=1_500, index_interval_bytes=200)
COMPACTED = LogConfig(segment_bytes=1_500, index_interval_bytes=200, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
BATCHES = 60
NUMBER = 5
"""Number of the damaged batch in its segment. The offset index has entries before and after this batch."""


@pytest.fixture
def memory() -> Logs:
    return Logs(MemoryFilesystem(), "/data/t-0")


def written(memory: Logs, config: LogConfig = CONFIG) -> Log:
    """A closed log of several segments whose records have ascending timestamps."""
    log = memory.new(config)
    for number in range(BATCHES):
        put(log, now_ms=NOW_MS + number)
    assert len(log.segments) > 3
    log.close()
    return log


def damage(memory: Logs, segment: Segment, kind: str) -> tuple[int, int]:
    """Damage one batch in a segment's file. Returns the batch's position and base offset."""
    path = segment.path(LOG_SUFFIX)
    raw, position, header = harmed(memory.fs.read_file(path) or b"", kind, NUMBER)
    memory.fs.write_file(path, raw)
    return position, header.base_offset


def opened(memory: Logs, config: LogConfig = CONFIG) -> Log:
    log, report = memory.open(clean=True, recovery_point=BATCHES, config=config)
    assert not report.losses
    log.high_watermark = log.log_end_offset
    return log


def read_up(log: Log, start: int, *, to_end: bool = False) -> tuple[list[int], KafkaError | None]:
    """Read the log from ``start``. Returns the base offsets that were read, and the error that ended the read, if any."""
    offsets: list[int] = []
    offset = start
    while offset < log.log_end_offset:
        try:
            piece = read(log, offset, 1 << 20, committed=False, to_end=to_end)
        except KafkaError as error:
            return offsets, error
        got = [header for _, header in batches(piece.data)]
        assert got, f"no batch at offset {offset}"
        assert sum(header.size_bytes for header in got) == len(piece.data), "a read ends with damaged bytes"
        offsets += [header.base_offset for header in got]
        offset = got[-1].next_offset
    return offsets, None


@pytest.mark.parametrize("to_end", [False, True], ids=["consumer", "follower"])
@pytest.mark.parametrize("kind", HARMS)
def test_read_at_a_damaged_batch_returns_corrupt_message(memory: Logs, kind: str, to_end: bool) -> None:
    segment = written(memory).segments[1]
    position, offset = damage(memory, segment, kind)
    log = opened(memory)
    offsets, error = read_up(log, 0, to_end=to_end)
    assert offsets == list(range(offset))
    assert isinstance(error, DamagedBatch)
    assert error.code is Code.CORRUPT_MESSAGE
    assert (error.path, error.position, error.offset) == (segment.path(LOG_SUFFIX), position, offset)
    assert str(log.damage) == str(error)
    # The segments after the damaged segment are readable, and the offset index finds the damaged segment's last batch.
    following = log.segments[2].base_offset
    assert read_up(log, following) == (list(range(following, BATCHES)), None)
    assert read_up(log, following - 1) == (list(range(following - 1, BATCHES)), None)


@pytest.mark.parametrize("kind", HARMS)
def test_read_committed_below_an_open_transaction_stops_at_a_damaged_batch(memory: Logs, kind: str) -> None:
    """The last stable offset is in the damaged segment, so a read_committed read must scan that segment to find where to stop."""
    log = memory.new(LogConfig(segment_bytes=1 << 20, index_interval_bytes=200))
    for _ in range(2 * NUMBER):
        put(log)
    put(log, pid=1, epoch=0, sequence=0, transactional=True)
    for _ in range(NUMBER):
        put(log)
    log.close()
    _, offset = damage(memory, log.active, kind)
    log, _ = memory.open(clean=True, recovery_point=log.log_end_offset, config=log.config)
    log.high_watermark = log.log_end_offset
    piece = read(log, 0, 1 << 20, committed=True)
    assert [header.base_offset for _, header in batches(piece.data)] == list(range(offset))
    with pytest.raises(DamagedBatch):
        read(log, offset, 1 << 20, committed=True)


@pytest.mark.parametrize("kind", HARMS)
def test_timestamp_lookup_does_not_skip_a_damaged_batch(memory: Logs, kind: str) -> None:
    segment = written(memory).segments[1]
    _, offset = damage(memory, segment, kind)
    log = opened(memory)

    def looked_up(number: int) -> int:
        found = run(offset_for_timestamp(log, NOW_MS + number, BATCHES))
        assert found is not None
        return found.offset

    assert looked_up(offset - 1) == offset - 1
    assert looked_up(BATCHES - 1) == BATCHES - 1
    with pytest.raises(KafkaError) as refused:
        looked_up(offset)
    assert refused.value.code is Code.CORRUPT_MESSAGE


@pytest.mark.parametrize("kind", HARMS)
def test_damaged_log_is_not_compacted(memory: Logs, kind: str) -> None:
    segment = written(memory, COMPACTED).segments[1]
    damage(memory, segment, kind)
    log = opened(memory, COMPACTED)
    before = {path: bytes(raw) for path, raw in memory.fs.files.items()}  # type: ignore[attr-defined]
    dirty = run(filthiest([log], NOW_MS))
    assert dirty is not None
    with pytest.raises(DamagedBatch):
        run(clean(dirty, NOW_MS, 1 << 20))
    assert {path: bytes(raw) for path, raw in memory.fs.files.items()} == before  # type: ignore[attr-defined]
    assert log.damage is not None


@pytest.mark.parametrize("kind", HARMS)
def test_coordinator_does_not_load_a_damaged_log(memory: Logs, kind: str) -> None:
    segment = written(memory).segments[1]
    _, offset = damage(memory, segment, kind)
    read_batches = []
    with pytest.raises(Damaged):
        read_batches += list(all_batches(opened(memory)))
    assert len(read_batches) <= offset


@pytest.mark.parametrize("kind", HARMS)
def test_damaged_log_is_refused_when_producer_state_must_be_rebuilt_from_it(memory: Logs, kind: str) -> None:
    """The producer snapshots are missing, so opening the log has to read all of it."""
    log = written(memory)
    damage(memory, log.segments[1], kind)
    for name in memory.fs.list_dir(memory.directory):
        if name.endswith(".snapshot"):
            memory.fs.unlink(f"{memory.directory}/{name}")
    with pytest.raises(Damaged, match=log.segments[1].path(LOG_SUFFIX)):
        opened(memory)


@pytest.mark.parametrize("clean_stop", [True, False])
@pytest.mark.parametrize("kind", CUTS)
def test_log_with_a_truncated_closed_segment_is_refused_at_start(memory: Logs, kind: str, clean_stop: bool) -> None:
    log = written(memory)
    damage(memory, log.segments[1], kind)
    for _ in range(2):
        with pytest.raises(Damaged, match=log.segments[1].path(LOG_SUFFIX)):
            memory.open(clean=clean_stop, recovery_point=BATCHES, config=CONFIG)


def test_incomplete_batch_at_the_end_of_the_active_segment_is_truncated(memory: Logs) -> None:
    log = written(memory)
    path = log.active.path(LOG_SUFFIX)
    raw = memory.fs.read_file(path) or b""
    memory.fs.write_file(path, raw + raw[: len(raw) // 2 - 10])
    again, report = memory.open(clean=False, recovery_point=log.active.base_offset, config=CONFIG)
    assert again.log_end_offset > BATCHES - 1
    assert len(report.losses) == 1
    assert again.damage is None
    assert read_up(again, 0, to_end=True)[1] is None


def test_follower_copies_batches_up_to_the_damaged_batch_of_its_leader(memory: Logs) -> None:
    """The leader serves the batches before the damage, then returns an error for each fetch at the damage, as in Kafka."""
    _, offset = damage(memory, written(memory).segments[1], "zeros")
    leader = opened(memory)
    follower = Log(MemoryFilesystem(), "/other/t-0", "t", 0, CONFIG)
    with pytest.raises(DamagedBatch):
        while follower.log_end_offset < BATCHES:
            piece = read(leader, follower.log_end_offset, 1 << 20, committed=False, to_end=True)
            append_as_follower(follower, piece.data, 0, NOW_MS)
    assert follower.log_end_offset == offset


def test_truncation_of_a_log_to_an_offset_after_a_damaged_batch_is_refused(memory: Logs) -> None:
    segment = written(memory).segments[1]
    _, offset = damage(memory, segment, "zeros")
    log = opened(memory)
    before = {path: bytes(raw) for path, raw in memory.fs.files.items()}  # type: ignore[attr-defined]
    with pytest.raises(DamagedBatch):
        truncate_to(log, offset + 1, NOW_MS)
    assert {path: bytes(raw) for path, raw in memory.fs.files.items()} == before  # type: ignore[attr-defined]
    truncate_to(log, offset - 1, NOW_MS)
    assert log.log_end_offset == offset - 1
    assert log.damage is None


def test_retention_removes_a_damaged_segment_and_clears_the_damage_report(memory: Logs) -> None:
    damage(memory, written(memory).segments[1], "length 0")
    log = opened(memory)
    assert read_up(log, 0)[1] is not None
    assert log.damage is not None
    delete_old(log, NOW_MS + log.config.retention_ms + BATCHES, len(log.segments))
    assert log.damage is None


def test_wrong_index_entry_is_not_reported_as_a_damaged_log(memory: Logs) -> None:
    log = written(memory)
    segment = log.segments[1]
    path = segment.offset_index.file.path
    raw = bytearray(memory.fs.read_file(path) or b"")
    raw[7] ^= 1
    memory.fs.write_file(path, raw)
    log = opened(memory)
    with pytest.raises(Damaged, match="points to a wrong position"):
        read_up(log, segment.base_offset + NUMBER - 1)
    assert log.damage is None


def test_batches_of_an_earlier_process_are_checked_on_their_first_read_only(memory: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    written(memory)
    log = opened(memory)
    assert read_up(log, 0)[0] == list(range(BATCHES))
    monkeypatch.setattr("ottla.storage.unchecked.SoundBatches", None)
    assert read_up(log, 0)[0] == list(range(BATCHES))
    put(log)
    assert read_up(log, BATCHES)[0] == [BATCHES]


def test_log_read_checks_a_bounded_number_of_batches(memory: Logs) -> None:
    written(memory)
    log = opened(memory)
    piece = read(log, 0, 1 << 20, committed=False, most_checks=2)
    assert [header.base_offset for _, header in batches(piece.data)] == [0, 1]
    assert (piece.has_more, piece.checked_batches) == (True, 2)
    assert read(log, 0, 1, committed=False).checked_batches == 0
    assert read_up(log, 0) == (list(range(BATCHES)), None)


def test_log_that_grows_during_a_scan_is_not_reported_as_damaged(memory: Logs) -> None:
    log = memory.new(LogConfig(segment_bytes=1 << 20))
    put(log)
    scanned = []
    for _, header, _ in log.active.scan():
        scanned.append(header.base_offset)
        put(log)
    assert scanned == [0]


def test_stored_exception_of_a_damaged_segment_keeps_no_traceback_frames(memory: Logs) -> None:
    """Raising a stored exception would add frames to its traceback, and these frames keep a response's records in memory."""
    segment = written(memory).segments[1]
    _, offset = damage(memory, segment, "zeros")
    log = opened(memory)
    raised = []
    for _ in range(2):
        with pytest.raises(DamagedBatch) as caught:
            read(log, offset, 1 << 20, committed=False)
        raised.append(caught.value)
    kept = log.segments[1].damage
    assert kept is not None
    assert kept.__traceback__ is None
    assert raised[0] is not raised[1]


def test_read_after_a_damaged_batch_scans_from_the_index_entry_before_the_batch(
    memory: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients retry a damaged offset. A scan from the start of a large segment would block the event loop at each retry."""
    segment = written(memory).segments[1]
    position, offset = damage(memory, segment, "zeros")
    log = opened(memory)
    walked: list[int] = []
    headers = Segment.headers
    monkeypatch.setattr(Segment, "headers", lambda self, start: walked.append(start) or headers(self, start))
    for later in range(offset, offset + 3):
        with suppress(DamagedBatch):
            read(log, later, 1 << 20, committed=False)
    assert walked
    assert all(0 < start <= position for start in walked)


def test_timestamp_lookup_during_a_truncation_reports_no_damage(memory: Logs) -> None:
    log = memory.new(CONFIG)
    for number in range(BATCHES):
        put(log, now_ms=NOW_MS + number)
    lookup = offset_for_timestamp(log, NOW_MS + BATCHES + 1_000_000, log.log_end_offset)
    log.segments[-1].max_timestamp_ms = NOW_MS + BATCHES + 1_000_000
    paused = next(lookup.__await__(), "end")
    truncate_to(log, log.segments[-1].base_offset + 1, NOW_MS)
    put(log, now_ms=NOW_MS)
    if paused is None:
        assert run(lookup) is None
    assert all(segment.damage is None for segment in log.segments)
