"""A leader counts the changes of in-sync sets that the controller has made or refused at its request, as Kafka's Partition does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ottla.broker.loop.counters import Counters
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_health import DiskHealth
from ottla.broker.partitions.partitions import Partition
from ottla.broker.peers.requests import Failure, PeerFailure
from ottla.broker.replication.in_sync_changes import RETRY_MS, InSyncChanges
from ottla.coordinator.replication.leader import new_leader
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_partition import AlterPartitionResponse, ResponsePartitionData, ResponseTopicData
from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from tests.support.world import LoopWorld

TOPIC_ID = b"t" * 16
LAG_MS = 30_000
EPOCH, PARTITION_EPOCH = 5, 4


class LeaderWorld(LoopWorld):
    """Broker 1 leads a partition with the followers 2 and 3, of which 2 is in sync; a test answers its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[Any, Callable[[Any], None]]] = []
        self.counters = Counters()
        barrier = Barrier(None)
        log = Log(self.env.fs, "/t-0", "t", 0, LogConfig(), TOPIC_ID)
        self.partition = Partition(self.env, log, barrier, DiskHealth(self.env, "/"), 1, is_led=False)
        self.changes = InSyncChanges(
            self.env, cast(Any, self), self.counters, broker_id=1, broker_epoch=lambda: 11, changed=lambda _: None
        )
        self.lead(EPOCH)

    def lead(self, epoch: int) -> None:
        leader = new_leader(
            broker_id=1,
            leader_epoch=epoch,
            start_offset=0,
            replicas=(1, 2, 3),
            in_sync=(1, 2),
            partition_epoch=PARTITION_EPOCH,
            max_lag_ms=LAG_MS,
            min_in_sync=1,
            live_epoch={1: 11, 2: 12, 3: 13}.get,
            now_ms=self.env.steady_ms(),
        )
        self.partition.lead(leader, lambda change: self.changes.ask(self.partition, change))

    def send(self, message: Any, then: Callable[[Any], None]) -> None:
        """Store a request to the controller with its callback."""
        self.sent.append((message, then))

    def shrink(self) -> None:
        """Request the removal of broker 2, which has not fetched for too long."""
        self.partition.leader.followers[2].end_offset = -1
        change = self.partition.leader.shrink(0, self.env.steady_ms() + LAG_MS + 1)
        assert change is not None
        self.changes.ask(self.partition, change)
        self.env.advance(1)

    def expand(self) -> None:
        """Request that broker 3 joins, because it has caught up."""
        self.partition.replica_fetched(3, fetch_offset=0, start_offset=0, broker_epoch=13)
        self.env.advance(1)

    def answer(self, *isr: int, error: Code = Code.NONE, epoch: int = EPOCH, partition_epoch: int = PARTITION_EPOCH + 1) -> None:
        result = ResponsePartitionData(
            partition_index=0,
            error_code=error,
            leader_id=1,
            leader_epoch=epoch,
            isr=list(isr),
            partition_epoch=partition_epoch,
        )
        topics = [ResponseTopicData(topic_id=TOPIC_ID, partitions=[result])]
        self.sent[-1][1](AlterPartitionResponse(topics=topics))

    @property
    def counted(self) -> tuple[int, int, int]:
        """Number of expansions, of shrinks and of failed changes."""
        return self.counters.isr_expands, self.counters.isr_shrinks, self.counters.failed_isr_updates


@pytest.fixture
def world() -> LeaderWorld:
    return LeaderWorld()


def test_in_sync_expansion_and_shrink_are_counted_after_the_controllers_response(world: LeaderWorld) -> None:
    world.expand()
    assert world.counted == (0, 0, 0), "the controller has not answered yet"
    world.answer(1, 2, 3)
    assert world.counted == (1, 0, 0)
    world.shrink()
    world.answer(1, 3, partition_epoch=PARTITION_EPOCH + 2)
    assert world.counted == (1, 1, 0)


def test_each_refusal_of_a_retried_in_sync_change_is_counted(world: LeaderWorld) -> None:
    world.expand()
    for _ in range(2):
        world.answer(error=Code.NOT_CONTROLLER)
        world.env.advance(RETRY_MS + 1)
    world.answer(1, 2, 3)
    assert len(world.sent) == 3
    assert world.counted == (1, 0, 2)


def test_refused_in_sync_change_without_retry_is_counted_once(world: LeaderWorld) -> None:
    world.shrink()
    world.answer(error=Code.INELIGIBLE_REPLICA)
    world.env.advance(RETRY_MS + 1)
    assert len(world.sent) == 1
    assert world.counted == (0, 0, 1)


def test_in_sync_change_with_another_leader_epoch_is_counted_as_failed(world: LeaderWorld) -> None:
    world.shrink()
    world.answer(1, epoch=EPOCH + 1)
    assert world.counted == (0, 0, 1)


@pytest.mark.parametrize("error", [Code.NONE, Code.FENCED_LEADER_EPOCH])
def test_in_sync_change_is_not_counted_after_a_new_leader_epoch(world: LeaderWorld, error: Code) -> None:
    world.shrink()
    world.lead(EPOCH + 1)
    world.answer(1, error=error)
    assert world.counted == (0, 0, 0)


def test_in_sync_change_request_without_a_controllers_decision_is_not_counted(world: LeaderWorld) -> None:
    world.shrink()
    world.sent[-1][1](PeerFailure(Failure.TIMED_OUT, "no answer"))
    world.env.advance(RETRY_MS + 1)
    world.sent[-1][1](AlterPartitionResponse(error_code=Code.STALE_BROKER_EPOCH))
    world.env.advance(RETRY_MS + 1)
    assert len(world.sent) == 3
    assert world.counted == (0, 0, 0)
