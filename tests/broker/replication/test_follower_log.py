"""Records that a follower appends from its leader, and which of its segments are synced."""

from __future__ import annotations

from typing import Any, cast

from ottla.broker.loop.stepping import Stepping
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_health import DiskHealth
from ottla.broker.partitions.durability import GroupCommit
from ottla.broker.partitions.partitions import Partition
from ottla.broker.replication.follower_log import FollowerLogs
from ottla.coordinator.replication.follower import Append, Following
from ottla.protocol.records import assign, build_batch
from ottla.simulation.env import START_MS
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from tests.support.world import simulated_env


class Synced(MemoryFilesystem):
    """A filesystem that records which files were synced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: set[str] = set()

    def sync_file(self, path: str) -> None:
        self.synced.add(path)


def test_follower_syncs_every_written_segment_before_its_next_fetch() -> None:
    """The leader assumes that all records before the fetch offset are durable, so every segment must be synced."""
    fs = Synced()
    env = cast(Any, simulated_env(fs))
    barrier = Barrier(GroupCommit(env, Stepping(env, lambda: None), lambda error: None, lambda path, error: None))
    disk = DiskHealth(env, "/")
    partition = Partition(env, Log(env.fs, "/t-0", "t", 0, LogConfig(segment_bytes=100), bytes(16)), barrier, disk, 1, is_led=False)
    partition.follow(2, 0)
    records = bytearray()
    for offset in range(3):
        batch = build_batch([(None, bytes(50))], START_MS)
        assign(batch, offset, 0)
        records += batch
    logs = FollowerLogs(env, cast(Any, None), disk, barrier)
    action = Append(records=bytes(records), high_watermark=0, start_offset=0)
    assert logs.carry_out(partition, Following(leader_id=2, leader_epoch=0), action) is None
    synced: list[bool] = []
    barrier.answer(synced.append)
    env.settle()
    assert synced == [True]
    assert len(partition.log.segments) == 3
    assert {segment.log.path for segment in partition.log.segments} <= fs.synced
