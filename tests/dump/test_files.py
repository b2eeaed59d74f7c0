"""The dump of each kind of file, valid or damaged."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ottla.dump.files import entries, is_known, partition_of
from ottla.storage.indexes import OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.real_filesystem import RealFilesystem

FIRST = f"{0:020d}"


def dumped(path: Path, **options: Any) -> list[dict[str, Any]]:
    return list(entries(RealFilesystem(read_only=True), str(path), **options))


def kinds(path: Path) -> list[str]:
    return [entry["kind"] for entry in dumped(path)]


def test_dump_of_a_log_lists_batches_records_and_markers(directory: Path) -> None:
    log = directory / "t-0" / f"{FIRST}.log"
    told = dumped(log)
    assert [entry["kind"] for entry in told] == ["batch", "record", "batch", "marker", "batch", "record", "batch", "marker"]
    batch, record, _, commit, _, _, _, abort = told
    assert (batch["base_offset"], batch["record_count"], batch["transactional"], batch["control"]) == (0, 1, True, False)
    assert batch["size_bytes"] < log.stat().st_size
    assert (record["offset"], record["headers"]) == (0, [])
    assert (commit["marker"], abort["marker"]) == ("COMMIT", "ABORT")
    assert commit["producer_id"] == batch["producer_id"]
    assert [entry["kind"] for entry in dumped(log, with_records=False)] == ["batch", "batch", "marker", "batch", "batch", "marker"]


def test_dump_reports_an_incomplete_batch_at_the_end_of_a_log(directory: Path) -> None:
    log = directory / "t-0" / f"{FIRST}.log"
    raw = log.read_bytes()
    log.write_bytes(raw[:-1])
    *_, last = dumped(log)
    assert (last["kind"], last["whole_batches_behind"]) == ("unsound", 0)
    assert last["position"] + last["size_bytes"] == len(raw) - 1


def test_dump_reports_damage_in_the_middle_of_a_log(directory: Path) -> None:
    log = directory / "t-0" / f"{FIRST}.log"
    raw = bytearray(log.read_bytes())
    raw[65] ^= 1
    log.write_bytes(raw)
    told, *left = dumped(log)
    assert told["kind"] == "unsound"
    assert "wrong CRC" in told["reason"]
    assert told["whole_batches_behind"] == 3
    assert [entry["kind"] for entry in left].count("batch") == 3, "the batches after the damage are shown"
    assert left[0]["position"] == told["position"] + told["size_bytes"]


def test_dump_reads_a_log_copied_under_another_file_name(directory: Path) -> None:
    """The base offset of a log comes from its first batch, so a copy under another file name can be dumped."""
    copy = directory / "sent.log"
    copy.write_bytes((directory / "t-0" / f"{FIRST}.log").read_bytes())
    assert dumped(copy) == dumped(directory / "t-0" / f"{FIRST}.log")


def test_dump_of_an_empty_log_has_no_entries(directory: Path) -> None:
    (directory / "t-0" / f"{9:020d}.log").touch()
    assert dumped(directory / "t-0" / f"{9:020d}.log") == []


def test_aborted_transaction_index_is_dumped(directory: Path) -> None:
    (told,) = dumped(directory / "t-0" / f"{FIRST}.txnindex")
    assert told["kind"] == "aborted"
    assert (told["first_offset"], told["last_offset"]) == (2, 3)


def test_dumped_index_offsets_are_absolute(tmp_path: Path) -> None:
    index = tmp_path / f"{100:020d}.index"
    index.write_bytes(OFFSET_ENTRY.pack(5, 4_096) + OFFSET_ENTRY.pack(9, 8_200))
    assert dumped(index) == [
        {"kind": "index", "offset": 105, "position": 4_096},
        {"kind": "index", "offset": 109, "position": 8_200},
    ]


def test_dump_shows_preallocated_index_space_as_padding(tmp_path: Path) -> None:
    index = tmp_path / f"{0:020d}.timeindex"
    index.write_bytes(TIME_ENTRY.pack(1_000, 3) + bytes(10 * TIME_ENTRY.size))
    assert dumped(index) == [
        {"kind": "time", "timestamp_ms": 1_000, "offset": 3},
        {"kind": "padding", "position": TIME_ENTRY.size, "size_bytes": 10 * TIME_ENTRY.size},
    ]
    index.write_bytes(bytes(10 * TIME_ENTRY.size))
    assert kinds(index) == ["padding"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (OFFSET_ENTRY.pack(9, 1) + OFFSET_ENTRY.pack(5, 2), "is not larger than the entry before it"),
        (OFFSET_ENTRY.pack(9, 1) + b"abc", "3 bytes after the last entry"),
    ],
)
def test_dump_reports_a_damaged_index(raw: bytes, reason: str, tmp_path: Path) -> None:
    index = tmp_path / f"{0:020d}.index"
    index.write_bytes(raw)
    sound, unsound = dumped(index)
    assert sound["kind"] == "index"
    assert reason in unsound["reason"]


def test_producer_snapshot_is_dumped(directory: Path) -> None:
    (path,) = (directory / "t-0").glob("*.snapshot")
    (producer,) = dumped(path)
    assert (producer["kind"], producer["producer_epoch"], producer["open_since_offset"]) == ("producer", 0, None)
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    assert kinds(path) == ["unsound"]


def test_dump_refuses_an_implausibly_large_producer_snapshot(directory: Path) -> None:
    (path,) = (directory / "t-0").glob("*.snapshot")
    with path.open("r+b") as file:
        file.truncate(200 << 20)
    (entry,) = dumped(path)
    assert entry["kind"] == "unsound"
    assert "more entries than a log has batches below offset" in entry["reason"]


def test_checkpoints_and_properties_are_dumped_as_lines(directory: Path) -> None:
    assert {"kind": "line", "text": "t 0 4"} in dumped(directory / "recovery-point-offset-checkpoint")
    assert any(entry["text"].startswith("cluster.id=") for entry in dumped(directory / "meta.properties"))


def test_dump_reads_a_large_text_file_in_bounded_memory(tmp_path: Path) -> None:
    """A file with millions of lines is dumped in bounded memory, because its lines are never collected in a list."""
    text = tmp_path / "a-checkpoint"
    lines = [f"{number} " * (number % 50) for number in range(5_000)]
    text.write_bytes("\n".join(lines).encode() + b"\r\nthe\x0blast \xff")
    assert [entry["text"] for entry in dumped(text)] == [*lines, "the\x0blast \\xff"]
    text.write_bytes(b"\n" * (20 << 20))
    tracemalloc.start()
    told = next(iter(entries(RealFilesystem(read_only=True), str(text))))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert told == {"kind": "line", "text": ""}
    assert peak_bytes < 10 << 20


def test_dump_reads_a_text_file_without_newlines(tmp_path: Path) -> None:
    text = tmp_path / "a-checkpoint"
    text.write_bytes(b"a\n" + b"x" * (3 << 20))
    assert kinds(text) == ["line", "unsound"]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (f"{FIRST}.log", True),
        (f"{FIRST}.txnindex.deleted", True),
        (f"{FIRST}.log.swap", True),
        (f"{FIRST}-0000000001.checkpoint", True),
        ("leader-epoch-checkpoint", True),
        ("notes.txt", False),
        (".lock", False),
    ],
)
def test_dump_recognizes_file_names_of_a_log_directory(name: str, known: bool) -> None:
    assert is_known(name) is known


@pytest.mark.parametrize(
    ("name", "where"),
    [("t-0", ("t", 0)), ("t-0-1", ("t-0", 1)), (f"t-3.{'0a' * 16}-delete", ("t", 3)), ("data", ("", 0))],
)
def test_topic_and_partition_are_parsed_from_the_directory_name(name: str, where: tuple[str, int]) -> None:
    assert partition_of(name) == where
