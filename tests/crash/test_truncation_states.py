"""A crash at any point of a truncation leaves the log unchanged or shorter, and all its other files agree with it."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.steps import run
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.simulation.torn_disk import TornDisk
from ottla.simulation.tracing_filesystem import TracingFilesystem
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDirectory
from ottla.storage.recovery import open_log
from tests.support.logs import NOW_MS, SMALL, busy, put, state, stored

pytestmark = pytest.mark.heavy


def directory_on(fs: TracingFilesystem | MemoryFilesystem) -> tuple[LogDirectory, Log]:
    directory = LogDirectory(fs, "/data")
    directory.acquire()
    log, _ = directory.open("t", 0, SMALL, NOW_MS)
    directory.loaded()
    return directory, log


def known(log: Log) -> tuple[object, ...]:
    """Return the state of the log, rebuilt from its segment files alone."""
    assert isinstance(log.fs, MemoryFilesystem)
    bare = MemoryFilesystem({p: d for p, d in log.fs.files.items() if p.startswith("/data/t-0/") and p.endswith(".log")})
    again = Log(bare, "/data/t-0", "t", 0, SMALL)
    open_log(again, NOW_MS, clean=False)
    return state(again)


@pytest.mark.parametrize("is_synced", [False, True])
@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_log_truncation_is_recovered_after_a_crash_at_any_point(seed: int, anew: bool, is_synced: bool) -> None:
    rng, fs = random.Random(seed), TracingFilesystem()
    directory, log = directory_on(fs)
    for epoch in range(3):
        log.leader_epoch = epoch
        busy(log, 40, seed=seed * 7 + epoch, first_pid=epoch * 10)
    if is_synced:
        log.flush()
    run(directory.write_checkpoints())
    before = [raw for _, raw in stored(log)]
    begun = len(fs.trace)
    offset = 9_000 if anew else rng.randrange(5, log.log_end_offset)
    if anew:
        directory.truncate_fully_and_start_at(log, offset, NOW_MS)
    else:
        directory.truncate(log, offset, NOW_MS)
    cut = len(fs.trace)
    # Batches of the next leader follow, then the broker is killed. Their producer state must not come from an earlier snapshot.
    log.leader_epoch = 7
    for _ in range(25):
        put(log, 2, pid=77, epoch=0, sequence=log.producers.entries[77].last_sequence + 1 if 77 in log.producers.entries else 0)
    after = [raw for _, raw in stored(log)]
    disk = TornDisk()
    for number, op in enumerate(fs.trace, 1):
        disk.apply(op)
        if number < begun:
            continue
        for name, image in disk.states(rng):
            if not is_synced and name != "kept":
                # A power cut may lose any part of unsynced data. tests/storage/test_recovery.py covers recovery from this loss.
                continue
            _, again = directory_on(MemoryFilesystem(image))
            assert again.offline_reason is None, (number, name)
            lies = [raw for _, raw in stored(again)]
            assert lies == before[: len(lies)] or lies == after[: len(lies)], (number, name)
            again.high_watermark = again.log_end_offset
            if lies and lies[0] == before[0]:
                assert state(again) == known(again), (number, name)
            assert number > cut or anew or len(lies) >= len([r for r in after if r in before]), (number, name)
