"""WriteTxnMarkers between brokers: no marker counts as written that may be lost with its leader."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.disk_health import DiskHealth
from ottla.broker.gate import Gate
from ottla.broker.handlers.write_txn_markers import write_markers
from ottla.broker.partitions import Partitions
from ottla.coordinator.replication.leader import new_leader
from ottla.protocol.errors import Code
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from ottla.storage.steps import run


def test_a_marker_whose_leader_is_another_one_before_the_last_step_is_not_written() -> None:
    env = cast(Any, SimulatedEnv(MemoryFilesystem(), random.Random(1), START_MS))
    gate = Gate(None)
    gate.is_replicated = True
    partitions = Partitions(env, cast(Any, None), gate, DiskHealth(env, "/"), 1)
    partition = partitions.add(Log(env.fs, "/t-0", "t", 0, LogConfig(), bytes(16)), is_led=False)
    partition.lead(
        new_leader(
            broker_id=1,
            leader_epoch=0,
            start_offset=0,
            replicas=[1, 2],
            in_sync=[1, 2],
            partition_epoch=0,
            max_lag_ms=30_000,
            min_in_sync=1,
            live_epoch=lambda _: 7,
            now_ms=env.steady_ms(),
        )
    )
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0, *range(1, 500)])]
    marker = WritableTxnMarker(producer_id=1, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=3)
    ports = cast(Any, SimpleNamespace(partitions=partitions, groups=None, gate=gate, timers=env))
    steps = write_markers(ports, WriteTxnMarkersRequest([marker]))
    next(steps)
    assert partition.log.log_end_offset == 1, "the first step has written the marker"
    partition.follow(2, 1)
    response = cast(Any, run(steps))
    assert response.markers[0].topics[0].partitions[0].error_code == Code.NOT_LEADER_OR_FOLLOWER
