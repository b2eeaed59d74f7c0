"""Group timeouts after a restart: compaction may have reordered the records, and the wall clock may have been set back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from ottla.coordinator.group.consumer import records as consumer_records
from ottla.coordinator.group.streams import records as streams_records
from ottla.coordinator.group.streams.requests import StreamsGroupConfig
from ottla.coordinator.group.streams.status import StatusCode
from ottla.coordinator.result import LogRecord
from tests.coordinator.consumer_world import Consumer, ConsumerGroupWorld
from tests.coordinator.streams.world import Application, StreamsGroupWorld


def compacted(log: Sequence[LogRecord], last: int) -> list[LogRecord]:
    """Return the latest record of each key, with records of the key type ``last`` after all others.

    Compaction keeps the latest record of a key at its offset. If a member changed its metadata, the metadata record then follows
    the record of its assignment.
    """
    latest = {record.key: record for record in log}
    return sorted(latest.values(), key=lambda record: int.from_bytes((record.key or b"")[:2], "big") == last)


def revoking_consumer() -> ConsumerGroupWorld:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a)
    world.join(b)
    world.beat(a, owned=None)
    assert "a" in world.group.revocations_ms
    world.log = compacted(world.log, consumer_records.RECORDS.member)
    return world


def revoking_application() -> StreamsGroupWorld:
    world, a, b = StreamsGroupWorld(), Application("a"), Application("b")
    world.join(a)
    world.join(b)
    world.beat(a, active_tasks=None, standby_tasks=None, warmup_tasks=None)
    assert "a" in world.group.revocations_ms
    world.log = compacted(world.log, streams_records.RECORDS.member)
    return world


@pytest.mark.parametrize("revoking", [revoking_consumer, revoking_application], ids=["consumer", "streams"])
def test_revocation_timeout_of_a_member_restarts_after_a_reload_in_any_record_order(
    revoking: Callable[[], ConsumerGroupWorld | StreamsGroupWorld],
) -> None:
    world = revoking()
    world.shard = world.reloaded()
    assert world.group.revocations_ms == {"a": world.now_ms + 30_000}
    world.tick(29_999)
    assert sorted(world.group.members) == ["a", "b"]
    world.tick(1)
    assert list(world.group.members) == ["b"]


def test_topic_metadata_change_does_not_extend_the_revocation_timeout_of_a_member() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a)
    world.join(b)
    world.beat(a, owned=None)
    before = dict(world.group.revocations_ms)
    world.now_ms += 1_000
    world.beat(a, owned=None, rack_id="elsewhere")
    assert world.group.members["a"].rack_id == "elsewhere"
    assert world.group.revocations_ms == before


def test_consumer_group_assignment_with_a_future_timestamp_does_not_delay_a_new_assignment() -> None:
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.config = msgspec.structs.replace(world.config, assignment_interval_ms=1_000)
    world.join(a)
    world.now_ms -= 3_600_000
    world.shard = world.reloaded()
    world.join(b)
    assert world.group.assignment_epoch == world.group.group_epoch


def test_streams_group_assignment_with_a_future_timestamp_does_not_delay_a_new_assignment() -> None:
    world, a, b = StreamsGroupWorld(config=StreamsGroupConfig(assignment_interval_ms=1_000)), Application("a"), Application("b")
    world.join(a)
    world.now_ms -= 3_600_000
    world.shard = world.reloaded()
    world.join(b)
    assert StatusCode.ASSIGNMENT_DELAYED not in b.statuses()
    assert world.group.assignment_epoch == world.group.metadata.epoch
