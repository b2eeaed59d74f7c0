"""A crash at any point of a compaction: the next start completes or discards the compaction, and readers see no difference."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.steps import run
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.simulation.torn_disk import TornDisk
from ottla.simulation.tracing_filesystem import TracingFilesystem
from ottla.storage.checkpoints import RECOVERY_POINTS
from ottla.storage.log import Log
from ottla.storage.log_cleaner import filthiest
from ottla.storage.log_dir import LogDirectory
from tests.storage.test_log_cleaner import BUFFER_BYTES, COMPACTED, contents, visible, write
from tests.support.logs import NOW_MS, end

pytestmark = pytest.mark.heavy

PASSES = 2
AGAIN = 0.2
"""Share of the renames after which the next start is interrupted by a second crash."""


def directory_on(fs: TracingFilesystem | MemoryFilesystem) -> tuple[LogDirectory, Log]:
    directory = LogDirectory(fs, "/data")
    directory.acquire()
    partitions = list(directory.partitions_on_disk())
    if partitions:
        log, _ = directory.open("t", 0, COMPACTED, NOW_MS)
        log.move_high_watermark(log.log_end_offset)
        return directory, log
    return directory, directory.create("t", 0, COMPACTED, bytes(16))


def fill(log: Log, rng: random.Random, sequences: dict[int, int]) -> None:
    for at in range(40):
        pid = rng.choice([1, 2])
        transactional = pid == 2
        pairs = [(f"{pid}-{rng.randrange(6)}", rng.choice([None, f"v{at}" * 4])) for _ in range(2)]
        write(log, *pairs, pid=pid, sequence=sequences.get(pid, 0), transactional=transactional)
        sequences[pid] = sequences.get(pid, 0) + 2
        if transactional and rng.random() < 0.4:
            end(log, 2, commit=rng.random() < 0.5)
    end(log, 2, commit=True)
    log.roll(NOW_MS)


def compacted_trace(seed: int) -> tuple[TracingFilesystem, list[tuple[int, int, tuple[object, ...]]]]:
    """Run several compaction passes on a disk that records its operations.

    Returns the file system, and for each pass the trace lengths at its begin and end and the content of the log.
    """
    rng, fs, sequences = random.Random(seed), TracingFilesystem(), dict[int, int]()
    directory, log = directory_on(fs)
    passes = []
    for at in range(PASSES):
        fill(log, rng, sequences)
        now_ms = NOW_MS + at * 2_000
        begin = len(fs.trace)
        dirty = run(filthiest([log], now_ms))
        assert dirty is not None
        run(directory.clean(dirty, now_ms, rng.choice([BUFFER_BYTES, 2_000])))
        run(directory.trash.empty(1 << 62))
        passes.append((begin, len(fs.trace), visible(log)))
        assert len(contents(log)) < 80 * (at + 1)
    return fs, passes


@pytest.mark.entry("STO-12", "STO-15")
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 5))])
def test_compaction_interrupted_by_a_crash_is_finished_or_undone(seed: int) -> None:
    fs, passes = compacted_trace(seed)
    rng, disk, states, done = random.Random(seed), TornDisk(), 0, 0
    for begin, finish, wanted in passes:
        for op in fs.trace[done:begin]:
            disk.apply(op)
        done = begin
        for at, op in enumerate(fs.trace[begin:finish]):
            disk.apply(op)
            done += 1
            for name, image in disk.states(rng):
                # Until a compaction pass has synced the segments that it reads, a power cut may lose earlier unsynced writes.
                if name != "kept" and not any(o.path.endswith(RECOVERY_POINTS) for o in fs.trace[begin : begin + at]):
                    continue
                again = MemoryFilesystem({path: data for path, data in image.items() if not path.endswith(".lock")})
                _, log = directory_on(again)
                assert visible(log) == wanted, f"crash state {name} after {op.kind} {op.path} {op.to}"
                left = [n for n in again.list_dir("/data/t-0") if n.endswith((".cleaned", ".swap", ".deleted"))]
                assert not left
                states += 1
            if op.kind == "rename" and rng.random() < AGAIN:
                crash_again(disk, rng, wanted)
    assert states > 200


def crash_again(disk: TornDisk, rng: random.Random, wanted: tuple[object, ...]) -> None:
    """Start after the crash, and crash again after each disk operation of that start."""
    image = dict(disk.states(rng))["kept"]
    fs = TracingFilesystem(real=MemoryFilesystem({path: data for path, data in image.items() if not path.endswith(".lock")}))
    directory_on(fs)
    files = {path: bytearray(data) for path, data in image.items() if not path.endswith(".lock")}
    for op in fs.trace:
        match op.kind:
            case "rename":
                files[op.to] = files.pop(op.path)
            case "unlink":
                files.pop(op.path, None)
            case "truncate":
                del files[op.path][op.size :]
            case "append":
                files.setdefault(op.path, bytearray()).extend(op.data)
            case "write":
                files[op.path] = bytearray(op.data)
        again = MemoryFilesystem(files)
        _, log = directory_on(again)
        assert visible(log) == wanted, f"second crash after {op.kind} {op.path} {op.to}"
