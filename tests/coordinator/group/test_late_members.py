"""Members whose sessions expire at the same time are removed in batches, whatever their number and the length of their ids."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ottla.coordinator.group.deadlines import MAX_FENCED_MEMBERS, RETRY_MS
from ottla.coordinator.group.share.requests import ShareGroupConfig
from ottla.coordinator.group.streams.requests import StreamsGroupConfig
from ottla.coordinator.result import RECORD_OVERHEAD_BYTES, LogRecord, Result, first_that_fit
from tests.coordinator.consumer_world import Consumer, ConsumerGroupWorld
from tests.coordinator.share_groups.world import ShareGroupWorld, Sharer
from tests.coordinator.streams.world import Application, StreamsGroupWorld

BATCH_BYTES = 20_000
LONGEST_ID = 32_767
NO_SECOND_TARGET_MS = 1_000_000_000
Worlds = ConsumerGroupWorld | StreamsGroupWorld | ShareGroupWorld


def with_consumers(count: int, length: int = 10) -> ConsumerGroupWorld:
    world = ConsumerGroupWorld()
    world.config = msgspec.structs.replace(world.config, assignment_interval_ms=NO_SECOND_TARGET_MS)
    for at in range(count):
        regex = {"topic_regex": f"t{at % 7}|[{'x' * 50}]"} if at % 2 else {}
        world.join(Consumer(str(at).rjust(length, "m")), **regex)
    return world


def with_applications(count: int, length: int = 10) -> StreamsGroupWorld:
    world = StreamsGroupWorld(config=StreamsGroupConfig(assignment_interval_ms=NO_SECOND_TARGET_MS))
    for at in range(count):
        world.join(Application(str(at).rjust(length, "m"), process_id="p"))
    return world


def with_sharers(count: int, length: int = 10) -> ShareGroupWorld:
    world = ShareGroupWorld(config=ShareGroupConfig(assignment_interval_ms=NO_SECOND_TARGET_MS, max_size=1_000))
    for at in range(count):
        world.join(Sharer(str(at).rjust(length, "m")))
    return world


ALL_GROUPS = pytest.mark.parametrize(
    "made", [with_consumers, with_applications, with_sharers], ids=["consumer", "streams", "share"]
)


def size_bytes(result: Result[Any]) -> int:
    return sum(len(r.key or b"") + len(r.value or b"") + RECORD_OVERHEAD_BYTES for r in result.records)


def pass_time(world: Worlds, ms: int) -> list[Result[None]]:
    world.now_ms += ms
    results = []
    for _, result in world.shard.tick(world.now_ms, BATCH_BYTES):
        results.append(result)
        world.run(result)
    return results


@ALL_GROUPS
def test_group_members_with_expired_sessions_are_removed_in_batches_that_fit_the_log(made: Any) -> None:
    world: Worlds = made(300)
    (first,) = pass_time(world, 45_000)
    assert 0 < len(world.group.members) < 300
    assert size_bytes(first) < BATCH_BYTES * 1.1
    for _ in range(100):
        for result in pass_time(world, 1):
            assert size_bytes(result) < BATCH_BYTES * 1.1
        if world.group.is_empty:
            break
    assert world.group.is_empty
    assert world.group.wake_ms is None
    assert not pass_time(world, RETRY_MS)
    world.shard = world.reloaded()
    assert world.group.is_empty


@ALL_GROUPS
def test_expired_group_members_with_ids_of_maximum_length_are_removed(made: Any) -> None:
    world: Worlds = made(3, LONGEST_ID)
    pass_time(world, 45_000)
    assert len(world.group.members) == 2, "the record of one member exceeds the target size of a batch"
    pass_time(world, 1)
    pass_time(world, 1)
    assert world.group.is_empty


@ALL_GROUPS
def test_each_step_removes_a_bounded_number_of_expired_group_members(made: Any) -> None:
    world: Worlds = made(MAX_FENCED_MEMBERS + 1)
    world.now_ms += 45_000
    for _, result in world.shard.tick(world.now_ms, 1 << 20):
        world.run(result)
    assert len(world.group.members) == 1


@ALL_GROUPS
def test_removal_of_expired_group_members_is_retried_after_a_failed_append(made: Any) -> None:
    world: Worlds = made(300)
    world.now_ms += 45_000
    assert len(list(world.shard.tick(world.now_ms, BATCH_BYTES))) == 1
    assert not pass_time(world, RETRY_MS - 1)
    assert len(pass_time(world, 1)) == 1
    assert len(world.group.members) < 300


def test_removal_batch_has_at_least_one_group_member_even_above_the_size_limit() -> None:
    def records(key: str) -> list[LogRecord]:
        return [LogRecord(key.encode(), None)] * 2

    each = 2 * (RECORD_OVERHEAD_BYTES + 4)
    keys = ["aaaa", "bbbb", "cccc"]
    assert first_that_fit(keys, records, each * 3) == keys
    assert first_that_fit(keys, records, each * 3 - 1) == keys[:2]
    assert first_that_fit(keys, records, 1) == keys[:1]
    assert first_that_fit([], records, 1) == []
