"""No step of a broker's periodic work blocks the event loop for long, whatever the amount of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.coordinators.groups import GROUPS_PER_STEP
from ottla.coordinator.group.member_ids import member_ids
from ottla.coordinator.group.records import CommittedOffset, offset_record
from ottla.coordinator.group.requests import GroupConfig
from ottla.coordinator.group.shard import GroupShard
from ottla.protocol.records import build_batch
from ottla.protocol.steps import Steps, next_turn, run
from ottla.storage.config import LogConfig
from ottla.storage.log_cleaner import filthiest
from ottla.storage.log_dir import LogDirectory
from ottla.storage.real_filesystem import RealFilesystem
from tests.coordinator.group_world import FakeTopics
from tests.support.counting import Limit, Meter, check_best, run_steps
from tests.support.logs import append

pytestmark = pytest.mark.full

LOOP_HELD = Limit(lines=75_000, ms=10)
NOW_MS = 1_700_000_000_000


async def expired(shard: GroupShard) -> None:
    for tombstones in shard.expire_offsets(NOW_MS + 10, GROUPS_PER_STEP, 1 << 19):
        if tombstones.records:
            await next_turn()


def check_steps(meter: Meter, work: Callable[[int], Steps[object]], limit: Limit = LOOP_HELD) -> None:
    """Run `work` several times. Raises AssertionError if every run has a step that exceeds `limit`."""

    def attempt(number: int) -> None:
        steps = work(number)
        meter.longest = 0.0
        run_steps(meter, steps)

    check_best(meter, limit, attempt)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    directory = LogDirectory(RealFilesystem(), str(tmp_path))
    directory.acquire()
    yield directory
    directory.abandon()


def batch(keys: list[bytes], value: bytes = b"v" * 80) -> bytearray:
    return build_batch([(key, value) for key in keys], NOW_MS)


@pytest.mark.parametrize(("records", "batches"), [(1, 20_000), (8_000, 8)])
def test_log_compaction_runs_in_short_steps(meter: Meter, directory: LogDirectory, records: int, batches: int) -> None:
    config = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, segment_bytes=4 << 20)

    def attempt(n: int) -> Steps[object]:
        log = directory.create("t", n, config, bytes(16))
        for at in range(meter.size(batches)):
            raw = batch([b"%d" % ((at * records + i) % 5_000) for i in range(records)])
            append(log, raw, NOW_MS)
        log.roll(NOW_MS)
        dirty = run(filthiest([log], NOW_MS))
        assert dirty is not None
        return directory.clean(dirty, NOW_MS, 128 << 20)

    check_steps(meter, attempt)


def test_retention_of_many_segments_runs_in_short_steps(meter: Meter, directory: LogDirectory) -> None:
    config = LogConfig(segment_bytes=200, retention_ms=1)

    def attempt(n: int) -> Steps[object]:
        log = directory.create("t", n, config, bytes(16))
        for _ in range(300):
            raw = batch([b"k"])
            append(log, raw, NOW_MS)
        assert len(log.segments) > 200
        return directory.apply_retention(NOW_MS + 10, lambda log, error: None)

    check_steps(meter, attempt)
    assert all(len(log.segments) == 1 for log in directory.logs.values())


def test_checkpoints_of_many_partitions_run_in_short_steps(meter: Meter, directory: LogDirectory) -> None:
    for n in range(max(600, meter.size(2_000))):
        log = directory.create("t", n, LogConfig(), bytes(16))
        raw = batch([b"k"])
        append(log, raw, NOW_MS)

    def attempt(n: int) -> Steps[object]:
        return directory.write_checkpoints()

    check_steps(meter, attempt, LOOP_HELD.with_lines(8_000))


def test_offset_expiry_of_many_groups_runs_in_short_steps(meter: Meter) -> None:
    def attempt(n: int) -> Steps[object]:
        shard = GroupShard(0, GroupConfig(offsets_retention_ms=1), FakeTopics(), member_ids(lambda: bytes(16)))
        for group in range(5_000):
            committed = CommittedOffset(1, -1, "", NOW_MS)
            shard.replay(offset_record((f"g{group}", "t", 0), committed), group, -1, NOW_MS)
        return expired(shard)

    check_steps(meter, attempt)
