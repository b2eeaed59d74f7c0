"""Files damaged while the broker was stopped: no start truncates them, forgets their records, or allocates their ids again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import pytest
from structlog.testing import capture_logs

from ottla.protocol.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.messages import producer_ids_record
from ottla.protocol.records import batches, read_records
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.checkpoints import RECOVERY_POINTS, read_offsets, write_offsets
from ottla.storage.identity import DirectoryError
from tests.scenarios.play import perform
from tests.scenarios.world import World

FIELDS = {
    "high byte of the offset": 0,
    "middle byte of the offset": 3,
    "low byte of the offset": 7,
    "high byte of the length": 8,
    "low byte of the length": 11,
    "magic": 16,
    "CRC": 17,
    "attributes": 21,
    "last offset delta": 26,
    "producer id": 43,
    "record count": 60,
    "records": 64,
}
"""Positions of bytes in a batch. The CRC does not cover the base offset, the length and the leader epoch."""
NUMBERS = {"first": 0, "middle": 3, "last": -1}
PLACES = [
    pytest.param(number, field, id=f"{name} of the {which}")
    for which, number in NUMBERS.items()
    for name, field in FIELDS.items()
    if which == "middle" or name in ("low byte of the offset", "high byte of the length", "records")
]


SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


@cache
def closed_directory() -> Mapping[str, bytes]:
    """Return the files of a clean stop after a few transactions with offsets."""
    simulated = SimulatedBroker(SETTINGS).start()
    told(
        simulated,
        "topic t partitions=2",
        "A = init x",
        *(command for at in (5, 6, 7) for command in (f"produce A t n={at}", f"offsets A g t={at}", "commit A")),
        *["produce A t/1 n=3 plain"] * 3,
    )
    simulated.close()
    assert isinstance(simulated.fs, MemoryFilesystem)
    return {path: bytes(raw) for path, raw in simulated.fs.files.items()}


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    """A broker on the closed directory. The test starts it."""
    simulated = SimulatedBroker(SETTINGS, fs=MemoryFilesystem(closed_directory()))
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


def told(broker: SimulatedBroker, *commands: str) -> list[str]:
    world = World(broker, "ottla", "")
    answers = [str(perform(world, command)) for command in commands]
    world.close()
    return answers


def log_of(broker: SimulatedBroker, topic: str) -> tuple[str, bytearray]:
    """Return the path and the content of a topic's only non-empty log file."""
    assert isinstance(broker.fs, MemoryFilesystem)
    ((path, raw),) = [
        (path, raw) for path, raw in broker.fs.files.items() if f"/{topic}-" in path and path.endswith(".log") and raw
    ]
    return path, raw


def flip(raw: bytearray, number: int, field: int) -> None:
    raw[[position for position, _ in batches(bytes(raw))][number] + field] ^= 0x41


@pytest.mark.parametrize(("number", "field"), PLACES)
@pytest.mark.entry("STO-28")
def test_damaged_metadata_log_prevents_the_broker_start(broker: SimulatedBroker, number: int, field: int) -> None:
    """If the log were truncated at the damage, topics would be lost and producer ids would be allocated twice."""
    path, raw = log_of(broker, METADATA_TOPIC)
    whole = bytes(raw)
    flip(raw, number, field)
    harmed = bytes(raw)
    for _ in range(2):
        with pytest.raises(DirectoryError, match=f"cannot start without the cluster's metadata: .*{path}.*; restore it"):
            broker.start()
        assert raw == harmed
    raw[:] = whole
    broker.start()
    assert broker.broker.producer_ids.new() == 1_000, "the first block of producer ids is skipped"


@pytest.mark.heavy
@pytest.mark.parametrize(("number", "field"), PLACES)
@pytest.mark.parametrize("topic", [TRANSACTION_TOPIC, OFFSETS_TOPIC])
@pytest.mark.entry("STO-29")
def test_coordinator_with_a_damaged_log_is_unavailable(broker: SimulatedBroker, topic: str, number: int, field: int) -> None:
    path, raw = log_of(broker, topic)
    whole = bytes(raw)
    flip(raw, number, field)
    harmed = bytes(raw)
    for restart in (broker.start, broker.restart):
        with capture_logs() as lines:
            restart()
        (line,) = [line for line in lines if line["log_level"] in ("warning", "error")]
        assert (line["event"], path in line["reason"]) == ("partition_went_offline", True)
        asked = "A = init x" if topic == TRANSACTION_TOPIC else "committed g t"
        assert told(broker, asked) == ["NOT_COORDINATOR"]
        assert raw == harmed
    broker.stop()
    raw[:] = whole
    broker.start()
    assert told(broker, "committed g t", "A = init x") == ["7", "NONE p1 e4"]


@pytest.mark.entry("STO-28")
def test_valid_batches_after_damage_in_the_newest_segment_are_kept(broker: SimulatedBroker) -> None:
    path, raw = next((p, r) for p, r in log_files(broker) if "/t-1/" in p)
    whole = bytes(raw)
    flip(raw, 1, FIELDS["high byte of the length"])
    harmed = bytes(raw)
    for attempt, restart in enumerate((broker.start, broker.restart)):
        with capture_logs() as lines:
            restart()
        (line,) = [line for line in lines if line["log_level"] in ("warning", "error")]
        assert (line["event"], line["hint"]) == (
            "partition_went_offline",
            "restore the files, or stop the broker and run 'ottla recover'; then restart the broker",
        )
        assert path in line["reason"]
        assert "with 1 whole batches follow" in line["reason"]
        asked = ("A = init x", "produce A t/1 plain", "fetch t/1", "produce A t plain")
        assert told(broker, *asked)[1:] == ["KAFKA_STORAGE_ERROR", "KAFKA_STORAGE_ERROR", f"NONE @{21 + attempt}"]
        assert raw == harmed
    broker.stop()
    raw[:] = whole
    broker.start()
    assert broker.broker.partitions.get("t", 1).log.log_end_offset == 9


@pytest.mark.entry("STO-28")
def test_recovery_point_of_0_lets_a_damaged_partition_start(broker: SimulatedBroker) -> None:
    path, raw = next((p, r) for p, r in log_files(broker) if "/t-1/" in p)
    flip(raw, 1, FIELDS["records"])
    del raw[-1:]
    broker.start()
    assert broker.broker.partitions.get("t", 1).log.is_offline
    broker.stop()
    checkpoint = f"{DATA_DIR}/{RECOVERY_POINTS}"
    points = read_offsets(broker.fs, checkpoint)
    assert points["t", 1] == 9
    write_offsets(broker.fs, checkpoint, points | {("t", 1): 0})
    with capture_logs() as lines:
        broker.start()
    (line,) = [line for line in lines if line["event"] == "log_tail_truncated"]
    assert line["reason"].startswith(f"{path}: the batch at offset 3 has a wrong CRC")
    assert broker.broker.partitions.get("t", 1).log.log_end_offset == 3


def log_files(broker: SimulatedBroker) -> list[tuple[str, bytearray]]:
    assert isinstance(broker.fs, MemoryFilesystem)
    return [(path, raw) for path, raw in broker.fs.files.items() if path.endswith(".log") and raw]


@pytest.mark.entry("STO-30")
def test_producer_ids_found_in_logs_are_not_allocated_again() -> None:
    """A power cut may lose the end of the metadata log, and with it the record of an allocated block of ids."""
    broker = SimulatedBroker(SETTINGS).start()
    told(broker, "topic t", "A = init x", "produce A t", "commit A")
    broker.kill()
    _, raw = log_of(broker, METADATA_TOPIC)
    stored = bytes(raw)
    allotted = next(
        position
        for position, header in batches(stored)
        # The record's version, its type and the type's version take one byte each.
        for record in read_records(stored[position : position + header.size_bytes])
        if record.value is not None and record.value[1] == producer_ids_record.RECORD_TYPE
    )
    # Only the first bytes of the batch with the producer id block reached the disk.
    del raw[allotted + 20 :]
    with capture_logs() as lines:
        broker.start()
    assert {"event": "producer_ids_skipped", "next_producer_id": 1, "log_level": "warning"} in lines
    broker.close()
