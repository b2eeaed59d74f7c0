"""Scans of stored batches: the batches found, the position where a scan stops, and the reason for the stop."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.primitives import Buffer
from ottla.protocol.records import HEADER, HEADER_BYTES, BatchHeader, build_batch, read_header
from ottla.simulation.memory_filesystem import MemoryFile, MemoryFilesystem
from ottla.storage import walk
from ottla.storage.walk import SoundBatches, batches, pieces, whole_batches_behind

PATH = "/t-0/00000000000000000100.log"
BASE_OFFSET = 100


def sized(*sizes: int) -> list[bytearray]:
    """Return batches of one record each, with values of the given sizes and offsets from ``BASE_OFFSET`` on."""
    made = []
    for at, size in enumerate(sizes):
        batch = build_batch([(None, b"v" * size)], 1)
        batch[:8] = (BASE_OFFSET + at).to_bytes(8, "big")
        made.append(batch)
    return made


def stored(*parts: bytes | bytearray) -> MemoryFile:
    return MemoryFilesystem({PATH: b"".join(parts)}).open(PATH)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 400), max_size=12), st.integers(0, 80), st.integers(1, 600))
def test_segment_scan_finds_every_valid_batch_once_for_any_read_size(sizes: list[int], cut: int, piece_bytes: int) -> None:
    made = sized(*sizes)
    # The removed bytes belong to the last batch, which is then incomplete.
    file = stored(b"".join(made)[: -cut or None])
    whole = made if not cut else made[:-1]
    walked = list(batches(file, piece_bytes=piece_bytes))
    assert [bytes(raw) for _, _, raw in walked] == whole
    assert [header.base_offset for _, header, _ in walked] == [BASE_OFFSET + at for at in range(len(whole))]
    positions = [sum(map(len, made[:at])) for at in range(len(whole) + 1)]
    assert [position for position, _, _ in walked] == positions[:-1]
    bounds = [piece.position + bound for piece in pieces(file, piece_bytes=piece_bytes) for bound in piece.bounds[1:]]
    assert bounds == positions[1:]
    sound = SoundBatches(file, BASE_OFFSET, piece_bytes=piece_bytes)
    assert [bytes(raw) for _, _, raw in sound] == whole
    assert (sound.end, sound.next_offset, sound.reason) == (positions[-1], BASE_OFFSET + len(whole), None)
    assert sound.is_whole == (positions[-1] == file.size)


def test_segment_scan_reads_only_the_requested_part_of_a_file() -> None:
    made = sized(10, 20, 30)
    file, second, third = stored(*made), len(made[0]), len(made[0]) + len(made[1])
    assert [position for position, _, _ in batches(file, second)] == [second, third]
    assert [position for position, _, _ in batches(file, 0, third)] == [0, second]
    assert [position for position, _, _ in batches(file, 0, third + 1)] == [0, second]


@pytest.mark.parametrize("piece_bytes", [HEADER_BYTES, 1 << 20])
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ((70, b"x"), "the batch at offset 101 has a wrong CRC"),
        # The length is beyond the end of the file or too small for a header, or the magic is that of an older message format.
        ((8, b"\0\1\0\0"), None),
        ((8, b"\0\0\0\5"), None),
        ((16, b"\1"), None),
        ((0, bytes(8)), "offset 0 follows offset 100"),
        ((8, b"\0\0\0\x77"), "the batch at offset 101 has a wrong CRC"),
    ],
)
def test_segment_scan_reports_why_a_batch_is_invalid(spoil: tuple[int, bytes], reason: str | None, piece_bytes: int) -> None:
    made = sized(50, 50, 50)
    at, noise = spoil
    made[1][at : at + len(noise)] = noise
    sound = SoundBatches(stored(*made), BASE_OFFSET, piece_bytes=piece_bytes)
    assert [header.base_offset for _, header, _ in sound] == [100]
    assert (sound.end, sound.next_offset, sound.reason, sound.is_whole) == (len(made[0]), 101, reason, False)


def test_damaged_batch_length_does_not_make_a_scan_read_the_rest_of_the_file_at_once() -> None:
    made = sized(50, 50, *[1_000] * 100)
    made[1][8:12] = (100_000).to_bytes(4, "big")
    file = stored(*made)
    asked: list[int] = []

    class Watched(MemoryFile):
        def read(self, size: int, offset: int) -> bytes:
            asked.append(size)
            return super().read(size, offset)

    watched = Watched(MemoryFilesystem({PATH: file.read(file.size, 0)}), PATH)
    sound = SoundBatches(watched, BASE_OFFSET, piece_bytes=4_000)
    assert len(list(sound)) == 1
    assert sound.reason == "the batch at offset 101 has a wrong CRC"
    assert max(asked) == 4_000


def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the search adds an entry for each batch header that it reads."""
    read: list[int] = []
    header_at = read_header

    def counted(buf: Buffer, at: int = 0) -> BatchHeader:
        read.append(at)
        return header_at(buf, at)

    monkeypatch.setattr(walk, "read_header", counted)
    return read


def test_segment_scan_reads_no_bytes_after_an_impossible_batch_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte of bytes that equal the magic byte once delayed a broker's start by an hour."""
    read, file = looks(monkeypatch), stored(b"\2" * 100_000)
    assert whole_batches_behind(file, 0, 7).batch_count == 0
    assert read == []


@pytest.mark.parametrize("likely", [False, True])
def test_search_for_valid_batches_among_false_headers_is_bounded(likely: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "SEARCHED_BYTES", 10 * walk.PLACE_BYTES)
    header = HEADER.pack(7, 49 if likely else 0, 0, 2, 1, 0, 0, 0, 0, -1, -1, -1, 0)
    read, file = looks(monkeypatch), stored(header * 10_000)
    assert whole_batches_behind(file, 0, 7).batch_count == 0
    assert len(read) <= 12


@pytest.mark.parametrize("offset", [0, 7, (1 << 31) - 1, (1 << 32) - 2, 0x5C_0000_002E, (1 << 62) + 3])
def test_search_after_damage_finds_valid_batches_with_any_offset(offset: int) -> None:
    made = sized(1, 1)
    made[0][:8], made[1][:8] = offset.to_bytes(8, "big"), (offset + 5).to_bytes(8, "big")
    file = stored(b"\2" * 5_000, *made)
    assert whole_batches_behind(file, 0, offset).batch_count == 2
