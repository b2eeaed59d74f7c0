"""Logs with valid CRCs and invalid content are dumped in bounded time, with one line per problem."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ottla.client.records import record as records
from ottla.dump.files import entries
from ottla.dump.timelines import timeline
from ottla.protocol.records import CONTROL_BIT, GZIP, TRANSACTIONAL_BIT, BatchHeader, pack_batch, read_header
from ottla.storage.real_filesystem import RealFilesystem
from tests.dump.test_files import FIRST, dumped

SMALLEST_RECORD = bytes((12, 0, 0, 0, 1, 1, 0))


def batch(payload: bytes, *, attributes: int = 0, record_count: int = 1, producer_id: int = 7) -> bytes:
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=max(0, record_count - 1),
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=-1,
        record_count=record_count,
    )
    return bytes(pack_batch(header, payload))


def log_of(directory: Path, raw: bytes) -> Path:
    (directory / "t-0").mkdir(exist_ok=True)
    log = directory / "t-0" / f"{FIRST}.log"
    log.write_bytes(raw)
    return log


def count_records(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an element for each record that is decoded."""
    made: list[int] = []
    make = records._record

    def counted(*arguments: Any) -> records.ConsumedRecord:
        made.append(1)
        return make(*arguments)

    monkeypatch.setattr(records, "_record", counted)
    return made


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x0c\0\0", bytes((0x1C, 0, 0, 0, 8, 0, 0, 0, 1, 2, 0, 0)), bytes((0x1A, 0, 0, 0, 8, 0, 0, 0, 1, 4, 0, 0, 0))],
    ids=["nothing", "cut off", "another length", "half a marker"],
)
def test_dump_reports_an_invalid_control_batch(payload: bytes, tmp_path: Path) -> None:
    log = log_of(tmp_path, batch(payload, attributes=CONTROL_BIT | TRANSACTIONAL_BIT))
    _, told = dumped(log)
    assert told["kind"] == "unsound"
    assert told["offset"] == 0


def test_dump_reports_a_control_batch_with_a_negative_record_count(tmp_path: Path) -> None:
    log = log_of(tmp_path, batch(b"", attributes=CONTROL_BIT, record_count=-1))
    assert [entry["kind"] for entry in dumped(log)] == ["batch", "control"]


def test_dump_decodes_records_of_a_decompression_bomb_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, made = 50_000, count_records(monkeypatch)
    log = log_of(tmp_path, batch(gzip.compress(SMALLEST_RECORD * count), attributes=GZIP, record_count=count))
    told = list(islice(entries(RealFilesystem(read_only=True), str(log)), 3))
    assert [entry["kind"] for entry in told] == ["batch", "record", "record"]
    assert len(made) == 2


def test_transaction_timeline_does_not_decompress_all_records_of_a_large_batch(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.dump.timelines.MAX_DATA_RECORDS", 10)
    log = directory / "t-0" / f"{FIRST}.log"
    producer_id = read_header(log.read_bytes()).producer_id
    payload = gzip.compress(SMALLEST_RECORD * 50_000)
    log.write_bytes(batch(payload, attributes=GZIP | TRANSACTIONAL_BIT, record_count=50_000, producer_id=producer_id))
    made = count_records(monkeypatch)
    assert [event.kind for event in timeline(RealFilesystem(read_only=True), str(directory), "a")][:2] == ["init", "begin"]
    assert len(made) < 50
