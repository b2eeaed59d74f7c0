"""Opening a log whose synced data was changed or lost reports the damage and truncates no valid batch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.protocol.records import batches
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Damaged
from tests.support.logs import Logs, busy, put, state


def damaged(raw: bytes, how: str) -> bytes:
    rng = random.Random(5)
    if how == "noise":
        return rng.randbytes(len(raw))
    if how == "noise of another size":
        return rng.randbytes(len(raw) // 2)
    if how == "zeros":
        return bytes(len(raw))
    if how == "something behind":
        return raw + rng.randbytes(200)
    if how == "the end gone":
        return raw[:-10]
    if how == "a bit of the last batch":
        return raw[:-1] + bytes([raw[-1] ^ 1])
    return b""


HARMS = ["noise", "noise of another size", "zeros", "the end gone", "a bit of the last batch", "nothing"]


@pytest.mark.entry("STO-28")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("how", HARMS)
@pytest.mark.parametrize("interval", [100, 1 << 20], ids=["indexed", "no index entries"])
def test_log_with_damaged_synced_data_is_refused_and_not_truncated(logs: Logs, how: str, interval: int, clean: bool) -> None:
    """Opening the damaged log fails after a clean stop, and fails again after an unclean stop."""
    config = LogConfig(segment_bytes=1_000, index_interval_bytes=interval)
    log = logs.new(config)
    busy(log)
    before, end_offset = state(log), log.log_end_offset
    assert log.active.size_bytes
    log.close()
    path = Path(log.active.log.path)
    raw = path.read_bytes()
    path.write_bytes(damaged(raw, how))
    for is_closed in (clean, False):
        with pytest.raises(Damaged, match=f"(ended at|was on the disk up to|everything up to offset) {end_offset}"):
            logs.open(clean=is_closed, recovery_point=end_offset, config=config)
        assert path.read_bytes() == damaged(raw, how)
    path.write_bytes(raw)
    assert state(logs.open(clean=False, recovery_point=end_offset, config=config)[0]) == before


@pytest.mark.entry("STO-28")
@pytest.mark.parametrize("field", [0, 7, 8, 11, 16, 17, 26, 30, 60], ids=lambda at: f"byte {at}")
@pytest.mark.parametrize("number", [0, 3, -1], ids=["first", "middle", "last"])
def test_flipped_byte_in_a_cleanly_closed_log_is_reported_or_harmless(logs: Logs, field: int, number: int) -> None:
    """After a clean stop only the last batch's CRC is checked. Damage in an earlier batch is found only in its length or magic."""
    config = LogConfig(segment_bytes=1 << 20)
    log = logs.new(config)
    for _ in range(6):
        put(log, 3)
    log.close()
    path = Path(log.active.log.path)
    raw = bytearray(path.read_bytes())
    at = [position for position, _ in batches(bytes(raw))][number]
    raw[at + field] ^= 0x41
    path.write_bytes(raw)
    for clean in (True, False):
        try:
            again, report = logs.open(clean=clean, recovery_point=18, config=config)
        except Damaged as error:
            assert path.name in str(error)
        else:
            assert not report.losses
            assert again.log_end_offset == 18
            assert clean
            assert number != -1
        assert path.read_bytes() == raw


@pytest.mark.entry("STO-28")
def test_bytes_after_the_end_of_a_cleanly_closed_log_are_truncated_and_reported(logs: Logs) -> None:
    log = logs.new()
    busy(log)
    log.close()
    path = Path(log.active.log.path)
    raw = path.read_bytes()
    path.write_bytes(damaged(raw, "something behind"))
    again, report = logs.open(clean=True)
    assert again.log_end_offset == log.log_end_offset
    assert path.read_bytes() == raw
    assert report.losses == [f"{path}: no whole batch at byte {len(raw)}; 200 bytes with 0 whole batches were removed"]


@pytest.mark.entry("STO-28")
@pytest.mark.parametrize("in_between", [1, 30])
def test_batches_after_an_outdated_recovery_point_are_verified_when_the_log_is_opened(logs: Logs, in_between: int) -> None:
    """The checkpointed recovery point is older than the closed log, as after an older checkpoint file was restored."""
    log = logs.new()
    busy(log, in_between)
    point = log.log_end_offset
    busy(log, 60, seed=9, first_pid=10)
    log.close()
    again, report = logs.open(clean=True, recovery_point=point)
    assert state(again) == state(log)
    assert again.recovery_point == log.log_end_offset
    assert not report.losses
    assert report.rebuilt == [f"the recovery point, which was {point}, while the log is sound up to {log.log_end_offset}"]
    path = Path(again.segments[again.segment_at(point)].log.path)
    again.abandon()
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(Damaged, match="wrong CRC"):
        logs.open(clean=True, recovery_point=point)


@pytest.mark.entry("STO-28")
@pytest.mark.parametrize("clean", [True, False])
def test_log_with_a_missing_segment_file_is_reported_as_damaged(logs: Logs, clean: bool) -> None:
    log = logs.new()
    put(log, 3)
    log.close()
    Path(log.active.log.path).unlink()
    with pytest.raises(Damaged, match=r"the log ends at offset 0, and .* 3"):
        logs.open(clean=clean, recovery_point=3)


@pytest.mark.entry("STO-04")
def test_valid_batches_truncated_after_a_crash_are_counted(logs: Logs) -> None:
    """Recovery truncates at the first invalid batch, as in Apache Kafka. The report counts the valid batches after it."""
    config = LogConfig(segment_bytes=1 << 20)
    log = logs.new(config)
    for _ in range(6):
        put(log)
    log.abandon()
    path = Path(log.active.log.path)
    raw = bytearray(path.read_bytes())
    size = len(raw) // 6
    for field, reason in ((8, "no whole batch"), (40, "the batch at offset 2 has a wrong CRC")):
        harmed = bytearray(raw)
        harmed[2 * size + field] ^= 0x41
        path.write_bytes(harmed)
        again, report = logs.open(clean=False, recovery_point=2, config=config)
        assert again.log_end_offset == 2
        lost = f"{4 * size} bytes with 3 whole batches were removed"
        assert report.losses == [f"{path}: {reason} at byte {2 * size}; {lost}"]
