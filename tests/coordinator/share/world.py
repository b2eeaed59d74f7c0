"""A share coordinator without a broker."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from ottla.coordinator.result import LogRecord
from ottla.coordinator.share_state.records import ShareKey, from_record
from ottla.coordinator.share_state.requests import ShareStateConfig, StateRead, StateWrite
from ottla.coordinator.share_state.shard import ShareShard
from tests.support.world import ShardWorld

TOPIC_ID = bytes(15) + b"\x07"
OTHER_ID = bytes(15) + b"\x08"
PARTITIONS = 3
KEY = ShareKey("g", TOPIC_ID, 0)


@dataclass
class ShareStateWorld(ShardWorld[ShareShard]):
    """A shard of share states. After each result, its live state is compared with a reload of its log."""

    config: ShareStateConfig = field(default_factory=lambda: ShareStateConfig(updates_per_snapshot=3, max_state_batches=4_000))
    topic_ids: set[bytes] = field(default_factory=lambda: {TOPIC_ID, OTHER_ID})

    def new_shard(self) -> ShareShard:
        return ShareShard(0, self.config, lambda topic_id, partition: topic_id in self.topic_ids and partition < PARTITIONS)

    def replay(self, shard: ShareShard, record: LogRecord, offset: int) -> None:
        shard.replay(record, offset)

    def logged(self, shard: ShareShard) -> Any:
        return shard.persisted

    def snapshot(self) -> Any:
        return copy.deepcopy(self.shard.persisted)

    def check(self) -> None:
        self.check_reloaded()

    def kinds(self) -> list[str]:
        return [type(from_record(record)[1]).__name__ for record in self.log]

    def initialize(self, key: ShareKey = KEY, state_epoch: int = 0, start_offset: int = 0) -> None:
        self.run_retried(lambda: self.shard.initialize(key, state_epoch, start_offset, self.now_ms))

    def write(self, write: StateWrite, key: ShareKey = KEY) -> None:
        self.run_retried(lambda: self.shard.write(key, write, self.now_ms))

    def read(self, leader_epoch: int, key: ShareKey = KEY) -> StateRead:
        answer: StateRead = self.run_retried(lambda: self.shard.read(key, leader_epoch, self.now_ms))
        return answer
