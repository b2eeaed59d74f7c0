"""Long operations that run in steps: the log changes between two steps, or a step that runs in a thread fails."""

from __future__ import annotations

import errno

import pytest

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import build_batch
from ottla.protocol.steps import Steps, in_thread, next_turn, run
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import SyncFailed
from ottla.storage.log import Log
from ottla.storage.log_cleaner import Interrupted, clean, filthiest
from ottla.storage.log_dir import LogDirectory
from ottla.storage.reading import TimestampedOffset, offset_for_timestamp
from ottla.storage.retention import delete_old
from tests.support.logs import NOW_MS, append, put

COMPACTED = LogConfig(
    segment_bytes=400, index_interval_bytes=100, cleanup_policy=("compact", "delete"), min_cleanable_dirty_ratio=0.0
)


class Faulty(MemoryFilesystem):
    """A file system on which syncing a file fails if its path contains ``unsyncable``."""

    def __init__(self) -> None:
        super().__init__()
        self.unsyncable = "none"

    def sync_file(self, path: str) -> None:
        if self.unsyncable in path:
            raise OSError(errno.EIO, "Input/output error", path)
        super().sync_file(path)


@pytest.fixture
def fs() -> Faulty:
    return Faulty()


@pytest.fixture
def directory(fs: Faulty) -> LogDirectory:
    made = LogDirectory(fs, "d")
    made.acquire()
    return made


@pytest.fixture
def log(directory: LogDirectory) -> Log:
    """A log of ten segments with three records each. Timestamps increase by one millisecond per batch."""
    made = directory.create("t", 0, COMPACTED, bytes(range(16)))
    for at in range(30):
        put(made, now_ms=NOW_MS + at)
    return made


def test_error_in_a_thread_step_is_raised_in_the_awaiting_coroutine() -> None:
    def fails() -> None:
        raise OSError(errno.EIO, "no")

    async def steps(is_caught: bool) -> str:
        try:
            await in_thread(fails)
        except OSError:
            if is_caught:
                await next_turn()
                return "caught"
            raise
        return "unseen"

    assert run(steps(is_caught=True)) == "caught"
    with pytest.raises(OSError, match="no"):
        run(steps(is_caught=False))


def cleaning(log: Log) -> Steps[object]:
    dirty = run(filthiest([log], NOW_MS))
    assert dirty is not None
    return clean(dirty, NOW_MS, 1 << 20)


def leftovers(fs: MemoryFilesystem) -> list[str]:
    return [path for path in fs.files if path.endswith(".cleaned")]


def test_interrupted_log_cleaning_leaves_no_file(fs: Faulty, directory: LogDirectory, log: Log) -> None:
    steps = cleaning(log)
    aside = next(step for step in steps.__await__() if step is not None)
    assert leftovers(fs)
    aside()
    log.is_failed = True
    with pytest.raises(Interrupted):
        steps.send(None)
    assert not leftovers(fs)


def test_cleaned_segment_whose_sync_fails_leaves_no_file(fs: Faulty, log: Log) -> None:
    fs.unsyncable = ".cleaned"
    with pytest.raises(SyncFailed):
        run(cleaning(log))
    assert not leftovers(fs)
    assert log.first_dirty_offset == 0


def test_failed_fsync_during_log_cleaning_is_raised_although_the_log_has_already_failed(fs: Faulty, log: Log) -> None:
    steps = cleaning(log)
    next(step for step in steps.__await__() if step is not None)
    log.is_failed = True
    with pytest.raises(SyncFailed):
        steps.throw(SyncFailed(errno.EIO, "Input/output error"))
    assert not leftovers(fs)


@pytest.mark.parametrize("unsyncable", ["00.log", ".cleaned"])
def test_log_cleaning_distinguishes_a_failed_fsync_from_a_refused_write(
    fs: Faulty, directory: LogDirectory, log: Log, unsyncable: str
) -> None:
    fs.unsyncable = unsyncable
    dirty = run(filthiest([log], NOW_MS))
    assert dirty is not None
    with pytest.raises(SyncFailed):
        run(directory.clean(dirty, NOW_MS, 1 << 20))
    assert (unsyncable == "00.log") == (log.recovery_point == 0)


@pytest.fixture
def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an operation yield after every unit of work."""
    monkeypatch.setattr("ottla.protocol.steps.WORK_A_STEP", 1)


def looked_up(log: Log, timestamp_ms: int) -> Steps[TimestampedOffset | None]:
    return offset_for_timestamp(log, timestamp_ms, log.high_watermark)


def result(steps: Steps[TimestampedOffset | None]) -> int | None:
    answer = run(steps)
    return None if answer is None else answer.offset


@pytest.mark.usefixtures("every_step")
def test_timestamp_lookup_finds_the_first_record_while_the_log_changes(log: Log) -> None:
    """Retention deletes segments after each step of the lookup. They may be already searched, in use, or not yet reached."""
    wanted = 20
    in_all = sum(1 for _ in looked_up(log, NOW_MS + wanted).__await__())
    assert in_all > 3
    for after in range(in_all):
        again = LogDirectory(MemoryFilesystem(), "d").create("t", 0, COMPACTED, bytes(16))
        for at in range(30):
            put(again, now_ms=NOW_MS + at)
        steps = looked_up(again, NOW_MS + wanted)
        for _ in range(after):
            steps.send(None)
        again.delete_records(again.segments[3].base_offset)
        for path in delete_old(again, NOW_MS, 100):
            again.fs.unlink(path)
        assert result(steps) == wanted, after


@pytest.mark.usefixtures("every_step")
def test_timestamp_lookup_finds_the_first_record_while_segments_are_merged(log: Log) -> None:
    wanted, config = 20, LogConfig(segment_bytes=100_000, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    for after in range(sum(1 for _ in looked_up(log, NOW_MS + wanted).__await__())):
        again = LogDirectory(MemoryFilesystem(), "d").create("t", 0, COMPACTED, bytes(16))
        for at in range(30):
            put_keyed(again, at)
        steps = looked_up(again, NOW_MS + wanted)
        for _ in range(after):
            steps.send(None)
        again.config = config
        run(cleaning(again))
        assert len(again.segments) == 2
        assert result(steps) == wanted, after


def put_keyed(log: Log, at: int) -> None:
    raw = build_batch([(b"%d" % at, b"v" * 20)], NOW_MS + at)
    append(log, raw, NOW_MS + at)


@pytest.mark.usefixtures("every_step")
def test_timestamp_lookup_in_a_deleted_log_fails_without_reading(directory: LogDirectory, log: Log) -> None:
    in_all = sum(1 for _ in looked_up(log, NOW_MS + 20).__await__())
    for after in range(1, in_all):
        steps = looked_up(log, NOW_MS + 20)
        for _ in range(after):
            steps.send(None)
        log.is_deleted = True
        with pytest.raises(KafkaError) as refused:
            steps.send(None)
        assert refused.value.code is Code.UNKNOWN_TOPIC_OR_PARTITION
        log.is_deleted = False
    directory.delete(log, "unique", NOW_MS)
    assert log.is_deleted
