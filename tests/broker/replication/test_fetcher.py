"""One leader's partitions do not depend on each other: what goes wrong with one of them does not hold up the others."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.config.settings import BrokerConfig
from ottla.broker.disk_health import DiskHealth
from ottla.broker.gate import Gate
from ottla.broker.partitions import Partition
from ottla.broker.replication.fetcher import ReplicaFetcher
from ottla.coordinator.replication.follower import FetchState, Following
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.log import Log


def test_a_bug_with_one_partition_stops_that_one_only() -> None:
    env = cast(Any, SimulatedEnv(MemoryFilesystem(), random.Random(1), START_MS))
    gate, sent, carried_out = Gate(None), list[tuple[FetchRequest, Any]](), list[int]()

    def carry_out(partition: Partition, following: Following, action: Any) -> None:
        if partition.log.partition == 0:
            raise LookupError("a bug")
        carried_out.append(partition.log.partition)

    peer = SimpleNamespace(send=lambda message, then, **options: sent.append((message, then)))
    broker = SimpleNamespace(broker_id=1, broker_epoch=7, settings=BrokerConfig({}).settings)
    logs = SimpleNamespace(carry_out=carry_out)
    fetcher = ReplicaFetcher(env, cast(Any, broker), lambda: cast(Any, peer), lambda: None, cast(Any, logs), gate)
    followings = []
    for index in range(2):
        log = Log(env.fs, f"/t-{index}", "t", index, LogConfig(), b"t" * 16)
        partition = Partition(env, log, gate, DiskHealth(env, "/"), 1, is_led=False)
        followings.append(Following(leader_id=2, leader_epoch=0))
        fetcher.add(partition, followings[-1])
    env.advance(1)
    answers = [PartitionData(partition_index=index, high_watermark=0, records=b"") for index in range(2)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic_id=b"t" * 16, partitions=answers)])
    with pytest.raises(LookupError, match="a bug"):
        sent[0][1](response)
    env.advance(1)
    assert carried_out == [1]
    assert [following.state for following in followings] == [FetchState.FAILED, FetchState.FETCHING]
    assert [p.partition for topic in sent[1][0].topics for p in topic.partitions] == [1]
