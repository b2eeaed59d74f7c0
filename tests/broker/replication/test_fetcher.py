"""Partitions fetched from one leader are independent: an error in one does not delay the others."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.config.settings import BrokerConfig
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_health import DiskHealth
from ottla.broker.partitions.partitions import Partition
from ottla.broker.replication.fetcher import ReplicaFetcher
from ottla.coordinator.replication.follower import FetchState, Following
from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets import ListOffsetsResponse
from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from tests.support.world import LoopWorld


class FollowerWorld(LoopWorld):
    """A broker that follows partitions of one leader, with the requests that it has sent to the leader."""

    def __init__(self, carry_out: Callable[[Partition, Following, Any], Any], partitions: int) -> None:
        super().__init__()
        env = self.env
        barrier = Barrier(None)
        self.sent: list[tuple[Any, Any]] = []
        peer = SimpleNamespace(send=lambda message, then, **options: self.sent.append((message, then)))
        broker = SimpleNamespace(broker_id=1, broker_epoch=7, settings=BrokerConfig({}).settings)
        logs = SimpleNamespace(carry_out=carry_out)
        self.fetcher = ReplicaFetcher(env, cast(Any, broker), lambda: cast(Any, peer), lambda: None, cast(Any, logs), barrier)
        self.partitions = []
        for index in range(partitions):
            log = Log(env.fs, f"/t-{index}", "t", index, LogConfig(), b"t" * 16)
            self.partitions.append(Partition(env, log, barrier, DiskHealth(env, "/"), 1, is_led=False))
        self.followings = [self.follow(partition) for partition in self.partitions]
        env.advance(1)

    def follow(self, partition: Partition) -> Following:
        following = Following(leader_id=2, leader_epoch=0)
        self.fetcher.add(partition, following)
        return following

    def answer(self, request: int, *, session_id: int = 0, **fields: Any) -> None:
        answers = [PartitionData(partition_index=n, records=b"", **fields) for n in range(len(self.partitions))]
        topic = FetchableTopicResponse(topic_id=b"t" * 16, partitions=answers)
        self.sent[request][1](FetchResponse(session_id=session_id, responses=[topic]))
        self.env.advance(1)

    def named(self, request: int) -> list[int]:
        return [p.partition for topic in self.sent[request][0].topics for p in topic.partitions]


def test_exception_for_one_partition_stops_replication_of_only_that_partition() -> None:
    carried_out: list[int] = []

    def carry_out(partition: Partition, following: Following, action: Any) -> None:
        if partition.log.partition == 0:
            raise LookupError("a bug")
        carried_out.append(partition.log.partition)

    follower = FollowerWorld(carry_out, 2)
    with pytest.raises(LookupError, match="a bug"):
        follower.answer(0, high_watermark=0)
    follower.env.advance(1)
    assert carried_out == [1]
    assert [following.state for following in follower.followings] == [FetchState.FAILED, FetchState.FETCHING]
    assert follower.named(1) == [1]


def test_follower_fetches_a_partition_again_whose_response_was_not_applied() -> None:
    """A session's response omits unchanged fields, so a high watermark that the follower dropped would not be sent again."""
    follower = FollowerWorld(lambda *_: None, 1)
    follower.answer(0, session_id=9, high_watermark=0)
    assert follower.named(1) == []
    follower.fetcher.remove(follower.partitions[0])
    follower.follow(follower.partitions[0])
    follower.answer(1, session_id=9, high_watermark=5)
    assert follower.named(2) == [0]


def test_follower_fetches_again_after_a_response_without_offsets() -> None:
    follower = FollowerWorld(lambda partition, following, action: action, 1)
    follower.answer(0, error_code=Code.OFFSET_OUT_OF_RANGE, high_watermark=-1)
    assert follower.followings[0].state is FetchState.OUT_OF_RANGE
    follower.sent[1][1](ListOffsetsResponse(topics=[]))
    assert follower.followings[0].state is FetchState.DELAYED
    follower.env.advance(1_000)
    assert follower.named(2) == [0]
