"""Apache Kafka's DumpLogSegments reads every file of a broker that was restarted after a crash."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.simulation.torn_disk import TornDisk
from ottla.storage.names import STRAY_SUFFIX
from tests.crash.load import run_load
from tests.crash.test_compaction_states import compacted_trace, directory_on
from tests.crash.test_crash_states import started
from tools import kafka

pytestmark = [pytest.mark.full, pytest.mark.java, pytest.mark.entry("STO-17")]

STATES = 60
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
FILES_AT_ONCE = 1_000
"""Files per call of the tool: Linux limits one command-line argument to 128 KiB."""
COMPLAINTS = ("exception", "mismatches", "isvalid: false", "out of order")


def after_crashes() -> Iterator[MemoryFilesystem]:
    """Yield the log directories of brokers that were started on a crash state and then stopped."""
    for durability in ("process", "power"):
        story, rng, disk = run_load(durability, 60, 5), random.Random(5), TornDisk()
        chosen = set(rng.sample(range(len(story.trace) // 2, len(story.trace)), STATES // 12))
        for count, op in enumerate(story.trace):
            disk.apply(op)
            for _, image in disk.states(rng) if count in chosen else ():
                broker = started(image, durability, story)
                broker.stop()
                fs = broker.env.fs
                assert isinstance(fs, MemoryFilesystem)
                broker.abandon()
                yield fs


def after_compactions() -> Iterator[MemoryFilesystem]:
    trace, passes = compacted_trace(3)
    rng, disk = random.Random(3), TornDisk()
    begin = passes[-1][0]
    for count, op in enumerate(trace.trace):
        disk.apply(op)
        if count < begin or op.kind != "rename":
            continue
        kept = dict(disk.states(rng))["kept"]
        fs = MemoryFilesystem({path: data for path, data in kept.items() if not path.endswith(".lock")})
        directory, _ = directory_on(fs)
        directory.close()
        yield fs


def written(filesystems: Iterator[MemoryFilesystem], root: Path) -> tuple[int, list[str]]:
    """Write the files below ``root``, under short names. Returns the number of states and the paths of the files."""
    paths, states = [], 0
    for fs in filesystems:
        states += 1
        for path, data in fs.files.items():
            folder, _, name = path.rpartition("/")
            # Stray partitions are skipped: a start moves them aside without recovering their files.
            if name.endswith(SUFFIXES) and not folder.endswith(STRAY_SUFFIX):
                target = root / f"{states}" / folder.rpartition("/")[2]
                target.mkdir(parents=True, exist_ok=True)
                (target / name).write_bytes(data)
                if data:
                    paths.append(str((target / name).relative_to(root)))
    return states, paths


@pytest.mark.parametrize(("filesystems", "at_least"), [(after_crashes, 50), (after_compactions, 10)])
def test_kafka_dump_log_accepts_every_file_of_a_crashed_broker(filesystems: object, at_least: int, tmp_path: Path) -> None:
    kafka.jars("all")
    states, paths = written(filesystems(), tmp_path)  # type: ignore[operator]
    assert states >= at_least
    assert {Path(p).suffix for p in paths} >= {".log", ".index", ".timeindex", ".snapshot"}
    for start in range(0, len(paths), FILES_AT_ONCE):
        files = ",".join(paths[start : start + FILES_AT_ONCE])
        said = kafka.tool("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", files, cwd=tmp_path, check=False)
        bad = [line for line in said.splitlines() if any(word in line.lower() for word in COMPLAINTS)]
        assert not bad, bad[:10]
        # DumpLogSegments reports a gap after offset -1 at the start of a file. All other gaps come from compaction.
        assert filesystems is after_compactions or not re.search(r"^\s+\d+ is followed by", said, re.MULTILINE)
        assert said.count("Dumping ") == len(paths[start : start + FILES_AT_ONCE])
