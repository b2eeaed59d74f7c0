"""Reading segment files gives exactly the records of a read-committed consumer, in any state of the log directory."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.spark.errors import PipelineError
from ottla.spark.segments.directory import Directory
from ottla.spark.segments.reading import COLUMNS, ReadRequest, parse_bounds, plan, read
from ottla.storage.checkpoints import RECOVERY_POINTS, write_offsets
from ottla.storage.config import LogConfig
from ottla.storage.last_stop import CLEAN_FILE, FIRST_DIRTY, LOG_STARTS
from ottla.storage.log import Log
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TXN_INDEX_SUFFIX
from tests.storage.harm import HARMS, harmed
from tests.storage.test_log import visible
from tests.storage.test_log_cleaner import compact
from tests.support.logs import NOW_MS, Logs, end, put

DESCRIPTORS = Path("/proc/self/fd")

pytestmark = [pytest.mark.heavy, pytest.mark.entry("PIP-14", "PIP-15")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def logs(root: Path) -> Iterator[Logs]:
    fs = RealFilesystem()
    yield Logs(fs, str(root / "t-0"))
    fs.close_files()


def rows(root: Path, **settings: object) -> list[dict[str, object]]:
    wanted = ReadRequest(str(root), "t", **settings)  # type: ignore[arg-type]
    return [row for split in plan(wanted) for batch in read(split, list(COLUMNS)) for row in batch.to_pylist()]


def offsets(root: Path, **settings: object) -> list[int]:
    return [row["offset"] for row in rows(root, **settings)]  # type: ignore[misc]


def history(log: Log, rng: random.Random, steps: int) -> Iterator[None]:
    """Write transactions of four producers across segments, with plain records between them."""
    sequences = dict.fromkeys(range(4), 0)
    is_open: set[int] = set()
    for _ in range(steps):
        pid = rng.randrange(5)
        if pid == 4:
            put(log, rng.randrange(1, 4))
        elif pid in is_open and rng.random() < 0.35:
            end(log, pid, commit=rng.random() < 0.5)
            is_open.discard(pid)
        else:
            count = rng.randrange(1, 4)
            put(log, count, pid=pid, epoch=0, sequence=sequences[pid], transactional=True, implicit_add=True)
            sequences[pid] += count
            is_open.add(pid)
        yield


@pytest.mark.parametrize("seed", range(4))
def test_segment_read_of_a_live_directory_gives_the_committed_records(root: Path, logs: Logs, seed: int) -> None:
    log = logs.new()
    rng = random.Random(seed)
    for number, _ in enumerate(history(log, rng, 160)):
        if number % 8 == 0:
            expected = visible(log)
            assert offsets(root) == expected
            assert offsets(root, split_bytes=rng.choice((100, 300, 700))) == expected
            start, stop = sorted((rng.randrange(log.last_stable_offset + 1), rng.randrange(log.last_stable_offset + 1)))
            assert offsets(root, starting={0: start}, ending={0: stop}) == [o for o in expected if start <= o < stop]
    assert len(log.segments) > 5


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="this system does not say which descriptors are open")
def test_segment_reader_closes_its_file_descriptors(root: Path, logs: Logs) -> None:
    log = logs.new()
    for _ in history(log, random.Random(1), 60):
        pass
    before = len(list(DESCRIPTORS.iterdir()))
    assert offsets(root) == visible(log)
    assert len(list(DESCRIPTORS.iterdir())) == before


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", ["clean", "killed", "no indexes", "no snapshots", "bad txnindex"])
def test_segment_reader_reads_directories_of_stopped_and_killed_brokers(root: Path, logs: Logs, seed: int, how: str) -> None:
    log = logs.new()
    rng = random.Random(seed)
    for _ in history(log, rng, 120):
        pass
    expected = visible(log)
    log.close()
    fs = RealFilesystem()
    settled = log.segments[len(log.segments) // 2].base_offset
    if how == "killed":
        write_offsets(fs, f"{root}/{RECOVERY_POINTS}", {("t", 0): settled})
    else:
        (root / CLEAN_FILE).write_text("")
    for path in (root / "t-0").iterdir():
        if (how == "no indexes" and path.suffix in (INDEX_SUFFIX, TXN_INDEX_SUFFIX)) or (
            how == "no snapshots" and path.suffix == ".snapshot"
        ):
            path.unlink()
        elif how == "bad txnindex" and path.suffix == TXN_INDEX_SUFFIX:
            path.write_bytes(path.read_bytes()[:-1])
    assert offsets(root) == expected
    again, _ = logs.open(clean=how == "clean", recovery_point=0)
    assert visible(again) == expected


def test_incompletely_written_batch_ends_a_segment_read_where_recovery_would_truncate(root: Path, logs: Logs) -> None:
    log = logs.new()
    for _ in range(12):
        put(log, 2)
    last = Path(log.active.path(LOG_SUFFIX))
    whole = last.read_bytes()
    size = log.active.size_bytes // ((log.log_end_offset - log.active.base_offset) // 2)
    for cut in range(1, size):
        last.write_bytes(whole[:-cut])
        assert offsets(root) == list(range(log.log_end_offset - 2))
    spoilt = bytearray(whole)
    spoilt[-1] ^= 1
    last.write_bytes(spoilt)
    assert offsets(root) == list(range(log.log_end_offset - 2))
    last.write_bytes(whole + b"\0" * 500)
    assert offsets(root) == list(range(log.log_end_offset))


def test_segment_reader_reports_damage_in_synced_data(root: Path, logs: Logs) -> None:
    log = logs.new()
    for _ in range(40):
        put(log, 2)
    log.close()
    (root / CLEAN_FILE).write_text("")
    path = Path(log.segments[1].path(LOG_SUFFIX))
    spoilt = bytearray(path.read_bytes())
    spoilt[-1] ^= 1
    path.write_bytes(spoilt)
    with pytest.raises(PipelineError, match=rf"t-0: {path} is damaged at byte \d+, offset \d+: .* has a wrong CRC"):
        offsets(root)
    path.write_bytes(spoilt[:-5])
    with pytest.raises(PipelineError, match=f"t-0: {path} is damaged at byte .*ottla recover"):
        offsets(root)


def test_segment_reader_reports_a_damaged_batch_header_in_synced_data(root: Path, logs: Logs) -> None:
    """A damaged header must not be treated as the end of the segment, because an open transaction may follow it."""
    log = logs.new()
    for _ in range(40):
        put(log, 2)
    log.close()
    (root / CLEAN_FILE).write_text("")
    for path in Path(log.directory).glob("*.snapshot"):
        path.unlink()
    path = Path(log.segments[1].path(LOG_SUFFIX))
    spoilt = bytearray(path.read_bytes())
    spoilt[16] ^= 3
    path.write_bytes(spoilt)
    with pytest.raises(PipelineError, match=f"t-0: {path} is damaged at byte 0, offset {log.segments[1].base_offset}"):
        Directory(str(root)).view("t", 0)


def test_segment_reader_reports_overlapping_segments_as_damage(root: Path, logs: Logs) -> None:
    """The broker truncates the log at the overlap when it starts after a crash (STO-06). A reader must not truncate silently."""
    log = logs.new()
    while len(log.segments) < 3:
        put(log, 2)
    second, third = log.segments[1], log.segments[2]
    Path(third.path(LOG_SUFFIX)).write_bytes(Path(second.path(LOG_SUFFIX)).read_bytes())
    with pytest.raises(PipelineError, match=f"t-0: {third.path(LOG_SUFFIX)} is damaged at byte 0, offset 32"):
        offsets(root)


@pytest.mark.parametrize("kind", HARMS)
@pytest.mark.parametrize("at", [0, 1], ids=["closed segment", "active segment"])
def test_damage_in_a_live_directory_fails_the_segment_read(root: Path, logs: Logs, kind: str, at: int) -> None:
    """Valid batches follow the damage, so it is not a batch that is being appended."""
    log = logs.new(LogConfig(segment_bytes=2_000, index_interval_bytes=200))
    while len(log.segments) < 2 or log.active.size_bytes < 1_500:
        put(log)
    segment = log.segments[at]
    path = Path(segment.path(LOG_SUFFIX))
    raw, position, header = harmed(path.read_bytes(), kind, 5)
    path.write_bytes(raw)
    if kind == "offset beyond the segment" and at:
        # The active segment has no successor that bounds its offsets, so damage is recognised by the first batch whose offset
        # decreases.
        position, first = position + header.size_bytes, header.base_offset + 1_000_001
    else:
        first = header.base_offset
    command = f"'ottla recover --data-dir {root} --partition t:0'"
    with pytest.raises(PipelineError, match=rf"t-0: {path} is damaged at byte {position}, offset {first}: .*{command}"):
        offsets(root)


def test_segment_reader_reports_a_log_that_ends_before_its_recovery_point(root: Path, logs: Logs) -> None:
    log = logs.new(LogConfig(segment_bytes=1 << 20))
    for _ in range(10):
        put(log)
    log.close()
    write_offsets(RealFilesystem(), f"{root}/{RECOVERY_POINTS}", {("t", 0): 10})
    path = Path(log.active.path(LOG_SUFFIX))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(PipelineError, match="offsets up to 9 are missing, which were synced before"):
        offsets(root)


def test_segment_reader_hides_deleted_records_before_the_checkpoint_file_is_written(root: Path, logs: Logs) -> None:
    """Apache Kafka writes the checkpoint of log start offsets only once a minute."""
    log = logs.new()
    for _ in range(20):
        put(log, 2)
    log.delete_records(13)
    assert offsets(root) == list(range(13, 40))


def test_segment_reader_continues_across_rolls_compaction_and_retention(root: Path, logs: Logs) -> None:
    log = logs.new()
    for _ in range(30):
        put(log, 2)
    splits = plan(ReadRequest(str(root), "t", split_bytes=300))
    for _ in range(30):
        put(log, 2)
    assert [row["offset"] for s in splits for b in read(s, ["offset"]) for row in b.to_pylist()] == list(range(60))
    for path in log.segments[0].mark_deleted():
        Path(path).unlink()
    with pytest.raises(PipelineError, match="retention has removed offset 0"):
        list(read(splits[0], ["offset"]))
    assert next(iter(read(splits[-1], ["offset"]))).num_rows


def test_segment_split_paths_do_not_depend_on_the_working_directory(
    root: Path, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(logs.new(), 2)
    monkeypatch.chdir(root.parent)
    (split,) = plan(ReadRequest(root.name, "t"))
    monkeypatch.chdir(root)
    assert next(iter(read(split, ["offset"]))).num_rows == 2


def test_segment_reader_reads_compacted_segments(root: Path, logs: Logs) -> None:
    from tests.storage.test_log_cleaner import write

    config = LogConfig(segment_bytes=1_000, index_interval_bytes=100, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    log = logs.new(config)
    rng = random.Random(3)
    for n in range(200):
        write(log, (f"k{rng.randrange(12)}", f"v{n}"))
    splits = plan(ReadRequest(str(root), "t", split_bytes=500))
    compact(log)
    expected = visible_records(log)
    assert len(expected) < 60
    assert [row["offset"] for row in rows(root)] == expected
    (root / CLEAN_FILE).write_text("")
    write_offsets(RealFilesystem(), f"{root}/{FIRST_DIRTY}", {("t", 0): log.first_dirty_offset})
    assert [row["offset"] for row in rows(root)] == expected
    # The splits were planned before the compaction, and are read after it.
    assert [row["offset"] for s in splits for b in read(s, ["offset"]) for row in b.to_pylist()] == expected


@pytest.mark.parametrize("how", ["emptied", "deleted", "all of its files deleted"])
def test_segment_reader_reports_a_missing_segment(root: Path, logs: Logs, how: str) -> None:
    log = logs.new()
    for _ in history(log, random.Random(5), 120):
        pass
    middle = log.segments[len(log.segments) // 2]
    path = Path(middle.path(LOG_SUFFIX))
    log.close()
    (root / CLEAN_FILE).write_text("")
    assert offsets(root)
    if how == "emptied":
        path.write_bytes(b"")
    elif how == "deleted":
        path.unlink()
    else:
        for name in path.parent.glob(f"{path.stem}.*"):
            name.unlink()
    before = Path(log.segments[len(log.segments) // 2 - 1].path(LOG_SUFFIX))
    named = {
        "emptied": rf"{path} is damaged at byte 0, offset \d+: the segment file ends before its index",
        "deleted": rf"{path} is missing, but its index exists",
    }
    with pytest.raises(PipelineError, match=named.get(how, rf"after {before}, and the topic was never compacted")):
        offsets(root)


def visible_records(log: Log) -> list[int]:
    from ottla.protocol.records import batches, read_records

    offsets = []
    for segment in log.segments:
        data = segment.log.read(segment.size_bytes, 0)
        offsets += [r.offset for p, h in batches(data) if h.record_count for r in read_records(data[p : p + h.size_bytes])]
    return offsets


def test_segment_read_respects_selected_columns_and_timestamp_bounds(root: Path, logs: Logs) -> None:
    log = logs.new()
    for n in range(40):
        put(log, 2, now_ms=NOW_MS + n * 10)
    split = plan(ReadRequest(str(root), "t", ending={0: 2}))[0]
    assert [b.schema.names for b in read(split, ["value", "partition"])] == [["value", "partition"]]
    (first, _) = rows(root, ending={0: 2})
    assert first["timestamp"].timestamp() * 1000 == NOW_MS  # type: ignore[attr-defined]
    assert (first["topic"], first["partition"], first["timestampType"], first["headers"]) == ("t", 0, 0, [])
    assert (first["key"], first["value"]) == (None, b"v" * 20)
    assert offsets(root, starting_timestamp_ms=NOW_MS + 101, ending_timestamp_ms=NOW_MS + 130) == [22, 23, 24, 25]
    assert offsets(root, starting_timestamp_ms=NOW_MS + 400) == []
    assert offsets(root, is_committed=False) == list(range(80))


def test_segment_read_includes_open_transactions_only_on_request(root: Path, logs: Logs) -> None:
    log = logs.new()
    put(log, 2)
    put(log, 2, pid=1, epoch=0, sequence=0, transactional=True, implicit_add=True)
    put(log, 2)
    assert offsets(root) == [0, 1]
    assert offsets(root, is_committed=False) == list(range(6))
    with pytest.raises(PipelineError, match="offsets up to 6 were requested, but a transaction is open at 2"):
        offsets(root, ending={0: 6})
    end(log, 1, commit=False)
    assert offsets(root) == [0, 1, 4, 5]
    assert offsets(root, is_committed=False) == list(range(6))


def test_invalid_options_of_a_segment_read_are_refused_with_the_reason(root: Path, logs: Logs) -> None:
    log = logs.new()
    for _ in range(30):
        put(log, 2)
    write_offsets(RealFilesystem(), f"{root}/{LOG_STARTS}", {("t", 0): 11})
    assert offsets(root)[0] == 11
    with pytest.raises(PipelineError, match="offset 3 was requested, but the log begins at 11: retention"):
        offsets(root, starting={0: 3})
    assert offsets(root, starting={0: 3}, fails_on_data_loss=False)[0] == 11
    with pytest.raises(PipelineError, match="up to 99 were requested, but the log ends at 60"):
        offsets(root, ending={0: 99})
    with pytest.raises(PipelineError, match="t-7 is not in"):
        offsets(root, partitions=(7,))
    with pytest.raises(PipelineError, match="no partition of topic 'u'"):
        plan(ReadRequest(str(root), "u"))
    with pytest.raises(PipelineError, match="is not a directory"):
        plan(ReadRequest(str(root / "nowhere"), "t"))
    Path(f"{log.segments[0].path(LOG_SUFFIX)}.swap").write_bytes(b"")
    with pytest.raises(PipelineError, match="compacted segments that are not renamed yet"):
        plan(ReadRequest(str(root), "t"))


def test_segment_reader_reads_partitions_in_several_log_directories(root: Path, logs: Logs) -> None:
    put(logs.new(), 5)
    shutil.copytree(root / "t-0", root.parent / "second" / "t-2")
    both = f"{root}, {root.parent / 'second'}"
    splits = plan(ReadRequest(both, "t"))
    assert [(split.partition, split.directory) for split in splits] == [(0, str(root)), (2, str(root.parent / "second"))]
    assert [len(batch) for split in splits for batch in read(split, ["offset"])] == [5, 5]
    assert [split.partition for split in plan(ReadRequest(both, "t", partitions=(2,)))] == [2]
    with pytest.raises(PipelineError, match="t-1 is not in"):
        plan(ReadRequest(both, "t", partitions=(1,)))
    # A partition is in two directories while an operator moves it.
    shutil.copytree(root / "t-0", root.parent / "second" / "t-0")
    with pytest.raises(PipelineError, match=r"t-0 is in .*data and in .*second: give one of them"):
        plan(ReadRequest(both, "t"))


def test_segment_read_accepts_offset_bounds_as_sparks_kafka_connector() -> None:
    assert parse_bounds('{"0": 5, "1": -2}', "startingOffsets") == {0: 5, 1: -2}
    assert parse_bounds('{"t": {"0": 5}}', "startingOffsets", "t") == {0: 5}
    for text in ('{"u": {"0": 5}}', "[]", "5", "x"):
        with pytest.raises(PipelineError, match="give earliest, latest or an offset a partition"):
            parse_bounds(text, "startingOffsets", "t")


def test_segment_read_does_not_change_the_directory(root: Path, logs: Logs) -> None:
    log = logs.new()
    for _ in history(log, random.Random(1), 60):
        pass
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    for path in copy.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in sorted(copy.rglob("*"))}
    rows(copy)
    assert {path: path.stat().st_mtime_ns for path in sorted(copy.rglob("*"))} == before
