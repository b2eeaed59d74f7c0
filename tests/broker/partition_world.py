"""A partition that this broker leads, with a follower that fetches when the test calls `fetched`."""

from __future__ import annotations

from typing import Any

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.partitions.kernel import make_kernel
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.replication.leader import Leader, new_leader
from ottla.protocol.records import build_batch
from ottla.simulation.env import START_MS
from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from tests.support.world import LoopWorld

OWN, OTHER = 1, 2


def make_leader(**fields: Any) -> Leader:
    """Return a leader's state: broker 1 leads, and broker 2 is in sync and has fetched nothing yet. ``fields`` override this."""
    defaults = {
        "broker_id": OWN,
        "leader_epoch": 0,
        "start_offset": 0,
        "replicas": [OWN, OTHER],
        "in_sync": [OWN, OTHER],
        "partition_epoch": 0,
        "max_lag_ms": 30_000,
        "min_in_sync": 1,
        "live_epoch": lambda broker_id: 7,
        "now_ms": START_MS,
    }
    return new_leader(**{**defaults, **fields})


class FollowedPartitionWorld(LoopWorld):
    def __init__(self) -> None:
        super().__init__()
        config = LiveConfig(BrokerConfig({"node.id": str(OWN), "process.roles": "broker"}))
        kernel = make_kernel(self.env, config, lambda path, error: None)
        self.barrier = kernel.barrier
        self.partitions = Partitions(kernel, lambda topic, index: None, lambda topic, index: None)
        self.partition = self.partitions.add(Log(self.fs, "/t-0", "t", 0, LogConfig(), bytes(16)), is_led=False)
        self.lead(0)

    def lead(self, leader_epoch: int) -> None:
        start_offset = self.partition.log.log_end_offset
        self.partition.lead(make_leader(leader_epoch=leader_epoch, start_offset=start_offset, now_ms=self.env.steady_ms()))

    def write(self) -> None:
        self.partition.append_own(build_batch([(b"k", b"v")], START_MS))

    def fetched(self, offset: int) -> None:
        """Let the follower fetch from this offset, which acknowledges all records before it."""
        self.partition.replica_fetched(OTHER, offset, 0, 7)
