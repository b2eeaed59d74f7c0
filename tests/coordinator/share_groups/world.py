"""A shard of share groups without a broker, with a scripted share coordinator and client-side members."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.groups import ShareGroups
from ottla.coordinator.group.share.requests import (
    Initialization,
    ShareGroupConfig,
    ShareHeartbeatAnswer,
    ShareHeartbeatOutcome,
)
from tests.coordinator.group_world import GROUP, FakeTopics, HeartbeatGroupsWorld, topic_id
from tests.coordinator.heartbeats import share_heartbeat


@dataclass
class Sharer:
    """The client-side state of a share group member. The member reads the partitions of the last assignment that it received."""

    member_id: str
    epoch: int = 0
    told: dict[bytes, frozenset[int]] | None = None

    def take(self, answer: ShareHeartbeatAnswer) -> None:
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.told = dict(answer.assignment)

    def reads(self, topic: str = "t") -> set[int]:
        return set((self.told or {}).get(topic_id(topic), ()))


@dataclass
class ShareGroupWorld(HeartbeatGroupsWorld[ShareGroups]):
    topics: FakeTopics = field(default_factory=lambda: FakeTopics({"t": 2}))
    config: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    asked: list[Initialization] = field(default_factory=list)
    """Initializations requested from the share coordinator, in order."""
    has_coordinator: bool = True
    """Whether the share coordinator answers requests at once."""

    def new_shard(self) -> ShareGroups:
        return ShareGroups(lambda group_id: self.config, self.topics)

    @property
    def group(self) -> ShareGroup:
        return self.shard.groups[GROUP]

    def logged(self, shard: ShareGroups) -> dict[str, tuple[Any, ...]]:
        return {
            g.group_id: (
                g.group_epoch,
                g.metadata_hash,
                g.assignment_epoch,
                g.assigned_ms,
                g.members,
                g.targets,
                g.states,
                dict(g.subscribers),
                sorted(g.sessions_ms),
                g.has_unassigned(),
            )
            for g in shard.groups.values()
        }

    def snapshot(self) -> Any:
        groups = self.shard.groups.values()
        return copy.deepcopy((self.logged(self.shard), [(g.sessions_ms, g.is_stale) for g in groups]))

    def take(self, initialization: Initialization | None) -> None:
        """Record an initialization request to the share coordinator, and confirm it if the coordinator is available."""
        if initialization is not None:
            self.asked.append(initialization)
            if self.has_coordinator:
                self.run(self.shard.initialized(initialization.group_id, initialization.partitions()))

    def beat(self, sharer: Sharer, **options: Any) -> ShareHeartbeatAnswer:
        fields = {"epoch": options.pop("member_epoch", sharer.epoch), "client_id": "client", "client_host": "/host", **options}
        outcome: ShareHeartbeatOutcome = self.run(
            self.shard.heartbeat(share_heartbeat(GROUP, sharer.member_id, **fields), self.now_ms)
        )
        sharer.take(outcome.answer)
        self.take(outcome.initialization)
        return outcome.answer

    def join(self, sharer: Sharer, *topics: str) -> ShareHeartbeatAnswer:
        sharer.epoch, sharer.told = 0, None
        return self.beat(sharer, topic_names=list(topics or ("t",)))

    def leave(self, sharer: Sharer) -> ShareHeartbeatAnswer:
        return self.beat(sharer, member_epoch=-1)
