"""Operations that read a whole log hold only a chunk of it in memory, not a segment of up to 1 GiB."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.partitions.latest_records import latest_batches
from ottla.cli.directories import adopt, audit, graduate
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.spark.segments.reading import ReadRequest, plan, read
from ottla.storage.checkpoints import RECOVERY_POINTS
from ottla.storage.config import LogConfig
from ottla.storage.last_stop import CLEAN_FILE
from ottla.storage.log import Log
from ottla.storage.reading import all_batches
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.recovery import open_log
from tests.operations.test_directory_audit import WHOLE, played

LARGE_BYTES = 48 << 20
BATCH_BYTES = 256 << 10
BOUND_BYTES = 16 << 20
"""Memory limit of an operation. Spark's segment source needs most: chunks of 4 MiB, and 4 MiB of batches for an Arrow batch."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory after a clean stop. One partition has a large segment.

    All operations first run on a small directory, so that modules imported at first use do not count as memory of an operation.
    """
    root = tmp_path_factory.mktemp("small")
    played(root, *WHOLE)
    for walk in WALKS:
        walk(root)
    root = tmp_path_factory.mktemp("large")
    played(root, *WHOLE)
    end_offset = enlarge(root / "t-0" / f"{0:020d}.log", 2)
    checkpoint = root / RECOVERY_POINTS
    checkpoint.write_text(checkpoint.read_text().replace("t 0 2", f"t 0 {end_offset}"))
    return root


def enlarge(path: Path, offset: int) -> int:
    """Append large batches to a log, starting at ``offset``. Returns the new log end offset."""
    batch = bytearray(build_batch([(None, b"v" * BATCH_BYTES)], 1))
    with path.open("ab") as file:
        while file.tell() < LARGE_BYTES:
            batch[:8] = offset.to_bytes(8, "big")
            offset += 1
            file.write(batch)
    return offset


def opened(directory: Path) -> Log:
    log = Log(RealFilesystem(), str(directory / "t-0"), "t", 0, LogConfig())
    open_log(log, 1, clean=False)
    return log


def with_segment_source(directory: Path) -> None:
    splits = plan(ReadRequest(str(directory), "t", is_committed=False))
    assert sum(batch.num_rows for split in splits for batch in read(split, ["offset"]))


def with_start_after_a_crash(directory: Path) -> None:
    (directory / CLEAN_FILE).unlink(missing_ok=True)
    broker = SimulatedBroker({"log.dirs": str(directory)}, fs=RealFilesystem()).start()
    broker.close()


def with_audit(directory: Path) -> None:
    assert audit(str(directory)) == 0


def with_graduation(directory: Path) -> None:
    assert graduate(str(directory), None, dry_run=True, in_place=False) == 0


def with_adoption(directory: Path) -> None:
    assert adopt(str(directory), str(directory.parent / f"{directory.name}-adopted"), ["t"]) == 0


def with_replay_of_the_latest(directory: Path) -> None:
    assert sum(1 for _ in latest_batches(opened(directory), (0,)))


def with_replay_of_all(directory: Path) -> None:
    assert sum(1 for _ in all_batches(opened(directory)))


WALKS = (
    with_audit,
    with_graduation,
    with_adoption,
    with_segment_source,
    with_replay_of_the_latest,
    with_replay_of_all,
    with_start_after_a_crash,
)


@pytest.mark.heavy
@pytest.mark.parametrize("walk", WALKS)
def test_offline_commands_read_a_large_segment_in_bounded_memory(walk: Callable[[Path], None], directory: Path) -> None:
    tracemalloc.start()
    try:
        walk(directory)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < BOUND_BYTES
