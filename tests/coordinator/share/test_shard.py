"""The share coordinator without a broker: after each decision and each failed append, a reload restores the live state."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from ottla.coordinator.result import LogRecord
from ottla.coordinator.share_state.batches import StateBatch
from ottla.coordinator.share_state.records import ShareKey, ShareState, ShareUpdate, from_record, snapshot_record
from ottla.coordinator.share_state.requests import ShareStateConfig, StateRead, StateSummary, StateWrite
from ottla.protocol.errors import Code, DecodeError, KafkaError
from tests.coordinator.share.world import KEY, OTHER_ID, PARTITIONS, TOPIC_ID, ShareStateWorld
from tests.support.levels import seeds

BATCH_BYTES = 1_000


def refused(command: Callable[[], object]) -> tuple[Code, str | None]:
    with pytest.raises(KafkaError) as raised:
        command()
    return raised.value.code, raised.value.message


def a_write(
    *batches: tuple[int, int, int, int], state_epoch: int = 0, leader_epoch: int = 0, start_offset: int = 0, complete: int = 0
) -> StateWrite:
    return StateWrite(state_epoch, leader_epoch, start_offset, complete, tuple(StateBatch(*batch) for batch in batches))


def test_share_state_is_initialized_written_read_and_deleted() -> None:
    world = ShareStateWorld()
    assert world.shard.read_summary(KEY) == StateSummary(0, 0, -1, -1)
    world.initialize(state_epoch=2, start_offset=-1)
    assert world.shard.read_summary(KEY) == StateSummary(2, 0, -1, -1)
    world.write(a_write((10, 19, 2, 1), state_epoch=2, start_offset=10, complete=10))
    world.write(a_write((15, 24, 0, 2), state_epoch=2, start_offset=10, complete=5))
    assert world.read(0) == StateRead(2, 10, (StateBatch(10, 14, 2, 1), StateBatch(15, 24, 0, 2)))
    assert world.shard.read_summary(KEY) == StateSummary(2, 0, 10, 10), (
        "the delivery count never decreases while the start offset is unchanged"
    )
    world.run_retried(lambda: world.shard.delete(KEY))
    assert world.shard.read_summary(KEY) == StateSummary()
    world.run_retried(lambda: world.shard.delete(KEY))
    assert world.kinds() == ["ShareState", "ShareUpdate", "ShareUpdate", "NoneType"]


def test_share_state_snapshot_is_written_after_the_configured_number_of_updates() -> None:
    world = ShareStateWorld(now_ms=1_000)
    world.initialize()
    for at in range(9):
        world.now_ms += 1
        world.write(a_write((at, at, 2, 1), start_offset=at, complete=1))
    assert world.kinds() == ["ShareState"] + (["ShareUpdate"] * 3 + ["ShareState"]) * 2 + ["ShareUpdate"]
    state = from_record(world.log[8])[1]
    assert isinstance(state, ShareState)
    assert (state.snapshot_epoch, state.start_offset, state.write_ms) == (2, 7, 1_008)
    assert world.read(0).start_offset == 8


def test_share_state_write_with_a_lower_start_offset_does_not_lower_the_start_offset() -> None:
    world = ShareStateWorld()
    world.initialize()
    world.write(a_write((10, 19, 2, 1), start_offset=10, complete=7))
    world.write(a_write((5, 12, 0, 3), start_offset=5, complete=2))
    assert world.read(0) == StateRead(0, 10, (StateBatch(10, 12, 0, 3), StateBatch(13, 19, 2, 1)))
    assert world.shard.read_summary(KEY).delivery_complete_count == 7


def test_share_state_read_by_a_new_leader_fences_the_previous_leader() -> None:
    world = ShareStateWorld()
    world.initialize()
    assert world.read(0) == StateRead(0, 0)
    assert world.kinds() == ["ShareState"], "a read at the same leader epoch writes no record"
    assert world.read(3) == StateRead(0, 0)
    assert isinstance(from_record(world.log[-1])[1], ShareUpdate)
    fenced = (Code.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the epoch on the broker.")
    assert refused(lambda: world.read(2)) == fenced
    assert refused(lambda: world.write(a_write(leader_epoch=2))) == fenced
    world.write(a_write(leader_epoch=5))
    assert world.shard.read_summary(KEY).leader_epoch == 3, "a write does not change the leader epoch"
    world.initialize(state_epoch=1)
    assert world.shard.read_summary(KEY) == StateSummary(1, 0, 0, 0)
    assert refused(lambda: world.read(2)) == fenced, "older leaders stay fenced after the state is initialized again"


def test_share_state_request_with_an_older_state_epoch_is_fenced() -> None:
    world = ShareStateWorld()
    world.initialize(state_epoch=4)
    fenced = (Code.FENCED_STATE_EPOCH, "The coordinator rejected the request because the state epoch did not match.")
    assert refused(lambda: world.initialize(state_epoch=3)) == fenced
    assert refused(lambda: world.write(a_write(state_epoch=3))) == fenced
    world.write(a_write(state_epoch=5))
    assert world.read(0).state_epoch == 4, "a write does not change the state epoch"


def test_share_coordinator_refuses_invalid_requests() -> None:
    world = ShareStateWorld()
    gone, beyond, negative = ShareKey("g", bytes(16), 0), ShareKey("g", TOPIC_ID, PARTITIONS), ShareKey("g", TOPIC_ID, -1)
    shard = world.shard
    for key in (gone, beyond):
        for command in (
            partial(shard.initialize, key, 0, 0, 0),
            partial(shard.read_summary, key),
            partial(shard.delete, key),
        ):
            assert refused(command) == (Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    assert refused(lambda: shard.read_summary(negative)) == (Code.INVALID_REQUEST, "The partition id cannot be a negative number.")
    assert refused(lambda: world.initialize(state_epoch=-1)) == (
        Code.INVALID_REQUEST,
        "The state epoch cannot be a negative number.",
    )
    assert refused(lambda: world.read(-1)) == (Code.INVALID_REQUEST, "The leader epoch cannot be a negative number.")
    assert refused(lambda: world.read(0)) == (
        Code.INVALID_REQUEST,
        "Read operation on uninitialized share partition not allowed.",
    )
    assert refused(lambda: world.write(a_write())) == (
        Code.INVALID_REQUEST,
        "Write operation on uninitialized share partition not allowed.",
    )
    world.initialize()
    assert refused(lambda: world.write(a_write((5, 4, 2, 1))))[0] is Code.INVALID_REQUEST
    world.topic_ids.remove(TOPIC_ID)
    assert refused(lambda: world.read(0))[0] is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(lambda: world.write(a_write()))[0] is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_number_of_share_state_batches_is_bounded_across_writes() -> None:
    """Without the limit, each write would take longer than the previous write, and a snapshot might not fit in a batch."""
    world = ShareStateWorld(config=ShareStateConfig(updates_per_snapshot=3, max_state_batches=10))
    world.initialize()
    world.write(a_write(*[(at, at, 2, 1) for at in range(0, 20, 2)]))
    code, message = refused(lambda: world.write(a_write((30, 30, 2, 1))))
    assert (code, message) == (Code.INVALID_REQUEST, "the share partition would have 11 state batches; at most 10 are allowed")
    world.write(a_write((18, 18, 0, 2), (1, 1, 2, 1), (30, 30, 2, 1)))
    assert len(world.shard.persisted[KEY].state.state_batches) == 9 + 1
    world.write(a_write((40, 40, 2, 1), (42, 42, 2, 1), start_offset=18))
    assert [batch.first_offset for batch in world.read(0).state_batches] == [18, 30, 40, 42]


def test_unsorted_share_state_batches_in_the_log_are_sorted_and_combined() -> None:
    world = ShareStateWorld()
    state = (StateBatch(10, 12, 0, 1), StateBatch(2, 11, 2, 1), StateBatch(5, 4, 0, 1))
    world.shard.replay(snapshot_record(KEY, ShareState(0, 0, 0, 0, 0, state)), 0)
    assert world.shard.persisted[KEY].state.state_batches == (StateBatch(2, 11, 2, 1), StateBatch(12, 12, 0, 1))


def test_share_states_of_deleted_topics_are_forgotten() -> None:
    world = ShareStateWorld()
    kept = ShareKey("g", OTHER_ID, 0)
    for key in (KEY, kept, ShareKey("h" * 900, TOPIC_ID, 2)):
        world.initialize(key)
    steps = list(world.shard.forget_topics({TOPIC_ID}, BATCH_BYTES))
    assert len(steps) == 2, "each batch of tombstones fits into the log"
    for step in steps:
        world.run(step)
    assert list(world.shard.persisted) == [kept]


def test_cold_share_state_snapshot_makes_older_records_unneeded() -> None:
    world = ShareStateWorld()
    cold, warm = KEY, ShareKey("h", TOPIC_ID, 1)
    assert world.shard.first_needed_offset() is None
    world.initialize(cold)
    world.now_ms += world.config.cold_snapshot_interval_ms
    world.initialize(warm)
    assert world.shard.first_needed_offset() == 0
    (step,) = world.shard.cold_snapshots(world.now_ms, BATCH_BYTES)
    world.run(step)
    assert from_record(world.log[-1])[0] == cold
    assert world.shard.first_needed_offset() == 1
    assert [r.records for r in world.shard.cold_snapshots(world.now_ms, BATCH_BYTES)] == [[]]


def test_share_partition_with_a_future_write_time_gets_a_cold_snapshot() -> None:
    """The wall clock was set back after the write. Without the cold snapshot, older records of the log would be kept until the
    write time."""
    world = ShareStateWorld()
    world.initialize()
    world.now_ms -= 1
    (step,) = world.shard.cold_snapshots(world.now_ms, BATCH_BYTES)
    world.run(step)
    assert world.shard.first_needed_offset() == 1
    assert [r.records for r in world.shard.cold_snapshots(world.now_ms, BATCH_BYTES)] == [[]]


@pytest.mark.parametrize("key", [None, b"", b"\0\x01\0\x01", b"\0\x09\0"])
def test_share_state_log_refuses_records_of_other_types(key: bytes | None) -> None:
    with pytest.raises(DecodeError):
        ShareStateWorld().shard.replay(LogRecord(key, None), 0)


@pytest.mark.parametrize("seed", seeds(8, in_check=3))
def test_random_share_state_histories_reload_to_the_written_state(seed: int) -> None:
    """The state is compared with a model of each offset. `ShareStateWorld` lets every append fail once, and reloads after it."""
    rng = random.Random(seed)
    world = ShareStateWorld()
    keys = [ShareKey(group, TOPIC_ID, partition) for group in "gh" for partition in range(2)]
    model: dict[ShareKey, tuple[int, int, dict[int, tuple[int, int]]]] = {}
    for _ in range(100):
        key = rng.choice(keys)
        command = rng.choice(["initialize", "delete", "write", "write", "write", "write"])
        if command == "initialize" or (command == "write" and key not in model):
            state_epoch = max((epoch for epoch, _, _ in model.values()), default=0) + rng.randrange(2)
            start_offset = rng.randrange(20)
            world.initialize(key, state_epoch, start_offset)
            model[key] = (state_epoch, start_offset, {})
        elif command == "delete":
            world.run_retried(partial(world.shard.delete, key))
            model.pop(key, None)
        else:
            state_epoch, start_offset, offsets = model[key]
            start_offset += rng.randrange(4)
            first = start_offset + rng.randrange(5)
            batch = (first, first + rng.randrange(5), rng.choice([0, 2, 4]), rng.randrange(1, 5))
            world.write(a_write(batch, state_epoch=state_epoch, start_offset=start_offset), key)
            for offset in range(batch[0], batch[1] + 1):
                offsets[offset] = max(offsets.get(offset, (0, 0)), (batch[3], batch[2]))
            model[key] = (state_epoch, start_offset, {o: says for o, says in offsets.items() if o >= start_offset})
    for key, (state_epoch, start_offset, offsets) in model.items():
        read = world.read(0, key)
        assert (read.state_epoch, read.start_offset) == (state_epoch, start_offset)
        assert {o: (b[3], b[2]) for b in read.state_batches for o in range(b[0], b[1] + 1)} == offsets
