"""The durability barrier sends responses at once or after the sync, and never if the write is lost."""

from __future__ import annotations

from functools import partial

import pytest

import ottla.broker.partitions.barrier
from ottla.broker.loop.stepping import Stepping
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_health import DiskHealth
from ottla.broker.partitions.durability import GroupCommit
from ottla.broker.partitions.partitions import Partition
from ottla.coordinator.replication.leader import sole_leader
from ottla.protocol.records import build_batch
from ottla.simulation.env import START_MS
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from tests.broker.partition_world import make_leader
from tests.support.handling import Handling, handled
from tests.support.world import LoopWorld


class GateWorld(LoopWorld):
    """A durability barrier. ``left`` records the responses and effects that the barrier has released."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[BaseException] = []
        commit = GroupCommit(self.env, Stepping(self.env, pytest.fail), self.failures.append, lambda path, error: None)
        self.barrier = Barrier(commit)
        self.log = Log(self.env.fs, "/t-0", "t", 0, LogConfig())
        self.left: list[object] = []
        self.env.fs.make_dir("/d")

    def write(self) -> None:
        self.env.fs.write_file("/d/checkpoint", b"1")
        self.barrier.wrote_file("/d/checkpoint", "/d")


def test_responses_are_sent_at_once_with_durability_process() -> None:
    barrier, left = Barrier(None), list[object]()
    barrier.wrote_file("/d/checkpoint", "/d")
    barrier.answer(left.append)
    barrier.effect(lambda: left.append("effect"))
    assert left == [True, "effect"]
    assert barrier.never_waits
    assert not barrier.is_pending
    assert barrier.on_written is None


def test_responses_wait_for_the_sync_with_durability_power() -> None:
    world = GateWorld()
    world.barrier.answer(world.left.append)
    assert world.left == [True], "no write is pending"
    world.write()
    assert world.barrier.is_pending
    world.barrier.answer(world.left.append)
    Handling(world.barrier.before_effect(world.log, 0), lambda is_durable: world.left.append(("effect", is_durable)))
    assert world.left == [True]
    world.env.settle()
    assert world.left == [True, True, ("effect", True)]
    assert not world.barrier.is_pending


def test_failed_fsync_fails_waiting_responses_and_cancels_pending_coordinator_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    world = GateWorld()
    world.write()

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("ottla.broker.partitions.durability.sync_file", fail)
    world.barrier.answer(world.left.append)
    world.barrier.effect(lambda: world.left.append("effect"))
    world.env.settle()
    assert world.left == [False]
    assert len(world.failures) == 1
    world.barrier.effect(lambda: world.left.append("effect"))
    assert world.left == [False]


def test_commit_barrier_refuses_to_wait_for_an_offset_after_the_log_end() -> None:
    world = GateWorld()
    with pytest.raises(AssertionError, match="log end"):
        handled(world.barrier.before_effect(world.log, 1))


def test_coordinator_actions_wait_until_the_high_watermark_reaches_their_records() -> None:
    """Each effect waits for its own offset on a partition whose follower fetches one batch at a time."""
    world = GateWorld()
    barrier, left = Barrier(None), list[str]()
    partition = Partition(world.env, world.log, barrier, DiskHealth(world.env, "/"), 1)
    partition.lead(make_leader(leader_epoch=4, now_ms=world.env.now_ms()))
    partition.waiters[lambda: left.append("a parked fetch")] = None
    for _ in range(3):
        partition.append_own(build_batch([(b"k", b"v")], START_MS))
        end = world.log.log_end_offset
        Handling(barrier.before_effect(world.log, end), partial(lambda end, is_durable: left.append(f"{end} {is_durable}"), end))
    assert (world.log.high_watermark, left) == (0, [])

    def fetched(offset: int) -> None:
        log = world.log
        answered = partition.leader.fetched(
            2,
            fetch_offset=offset,
            start_offset=0,
            broker_epoch=7,
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            now_ms=world.env.now_ms(),
        )
        partition.commit(answered.high_watermark)

    fetched(2)
    assert left == ["1 True", "2 True"]
    barrier.forget(world.log)
    fetched(3)
    assert (world.log.high_watermark, left) == (3, ["1 True", "2 True", "3 False"]), (
        "another broker was elected before the last write was committed"
    )
    world.env.settle()
    assert left[-1] == "a parked fetch"
    partition.lead(sole_leader(1, 5, 3))
    partition.append_own(build_batch([(b"k", b"v")], START_MS))
    assert world.log.high_watermark == 4


def test_stopped_commit_barrier_sends_no_response() -> None:
    world = GateWorld()
    world.write()
    world.barrier.answer(world.left.append)
    world.barrier.stop()
    world.env.settle()
    world.barrier.effect(lambda: world.left.append("effect"))
    assert world.left == []


def test_number_of_responses_that_wait_for_a_log_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that never catches up must not let responses fill the memory. Clients that are refused retry."""
    monkeypatch.setattr(ottla.broker.partitions.barrier, "MAX_ANSWERS_A_LOG", 2)
    barrier, left = Barrier(None), list[tuple[int, bool]]()
    log = Log(MemoryFilesystem(), "/t-0", "t", 0, LogConfig())
    log.append_own(build_batch([(None, b"a")], START_MS), START_MS)
    log.high_watermark = 0
    for number in range(3):
        barrier.answer_after(log, 1, lambda is_committed, number=number: left.append((number, is_committed)))  # type: ignore[misc]
    assert left == [(2, False)]
    Handling(barrier.before_effect(log, 1), lambda is_durable: left.append((3, is_durable)))
    log.high_watermark = 1
    barrier.committed(log)
    assert left == [(2, False), (0, True), (1, True), (3, True)]
