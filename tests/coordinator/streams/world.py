"""Test fixtures: a shard of streams groups that needs no broker; topologies; clients that keep the state of a member."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ottla.coordinator.group.streams.answers import task_ids
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.groups import StreamsGroups
from ottla.coordinator.group.streams.records import task_set
from ottla.coordinator.group.streams.requests import StreamsGroupConfig, StreamsHeartbeat, StreamsHeartbeatOutcome, check_heartbeat
from ottla.coordinator.group.streams.status import StatusCode
from ottla.coordinator.group.streams.tasks import Tasks
from ottla.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.coordinator.group_world import FakeTopics, HeartbeatGroupsWorld

GROUP = "app"
NOTHING = Tasks()
NOT_LOGGED = ("task_offsets", "shutdown_member_id", "endpoint_epoch", "sessions_ms", "revocations_ms", "delayed_until_ms")
STATELESS = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=["in"])])
STATEFUL = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(subtopology_id="0", source_topics=["in"], state_changelog_topics=[TopicInfo(name="app-store-changelog")])
    ],
)


@dataclass
class Application:
    """The client-side state of a streams group member. It owns the tasks of its last response unless a test changes them."""

    member_id: str
    process_id: str = ""
    instance_id: str | None = None
    topology: Topology = field(default_factory=lambda: STATELESS)
    endpoint: Endpoint | None = None
    epoch: int = 0
    endpoint_epoch: int = 0
    owned: Tasks = NOTHING
    answer: StreamsGroupHeartbeatResponse = field(default_factory=StreamsGroupHeartbeatResponse)

    def take(self, answer: StreamsGroupHeartbeatResponse) -> None:
        self.answer, self.epoch, self.endpoint_epoch = answer, answer.member_epoch, answer.endpoint_information_epoch
        if answer.active_tasks is not None:
            self.owned = Tasks(
                task_set(answer.active_tasks), task_set(answer.standby_tasks or ()), task_set(answer.warmup_tasks or ())
            )

    @property
    def active(self) -> set[int]:
        """Active tasks of subtopology 0 that the member owns."""
        return set(self.owned.active.get("0", ()))

    @property
    def standby(self) -> set[int]:
        return set(self.owned.standby.get("0", ()))

    def statuses(self) -> set[StatusCode]:
        return {StatusCode(one.status_code) for one in self.answer.status or ()}


@dataclass
class StreamsGroupWorld(HeartbeatGroupsWorld[StreamsGroups]):
    topics: FakeTopics = field(default_factory=lambda: FakeTopics({"in": 4, "app-store-changelog": 4}))
    config: StreamsGroupConfig = field(default_factory=StreamsGroupConfig)

    def new_shard(self) -> StreamsGroups:
        return StreamsGroups(lambda _: self.config, self.topics)

    @property
    def group(self) -> StreamsGroup:
        return self.shard.groups[GROUP]

    def configure(self, **changes: Any) -> None:
        self.config = msgspec.structs.replace(self.config, **changes)

    def logged(self, shard: StreamsGroups) -> dict[str, tuple[Any, ...]]:
        return {
            group_id: (
                group.metadata,
                group.assignment_epoch,
                group.assigned_ms,
                group.topology,
                dict(group.members),
                dict(group.static_members),
                dict(group.targets),
                (dict(group.holders.active), _copied(group.holders.standby), _copied(group.holders.warmup)),
                sorted(group.sessions_ms),
                sorted(group.revocations_ms),
                group.state,
            )
            for group_id, group in shard.groups.items()
        }

    def snapshot(self) -> Any:
        kept = {g: [copy.copy(getattr(group, name)) for name in NOT_LOGGED] for g, group in self.shard.groups.items()}
        return self.logged(self.shard), kept

    def request(self, app: Application, **options: Any) -> StreamsGroupHeartbeatRequest:
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": app.member_id,
            "member_epoch": app.epoch,
            "endpoint_information_epoch": app.endpoint_epoch,
            "instance_id": app.instance_id,
            "active_tasks": task_ids(TaskIds, app.owned.active),
            "standby_tasks": task_ids(TaskIds, app.owned.standby),
            "warmup_tasks": task_ids(TaskIds, app.owned.warmup),
        }
        return StreamsGroupHeartbeatRequest(**{**fields, **options})

    def beat(self, app: Application, **options: Any) -> StreamsHeartbeatOutcome:
        version = options.pop("version", 1)
        request = self.request(app, **options)
        check_heartbeat(request)
        outcome: StreamsHeartbeatOutcome = self.run(
            self.shard.heartbeat(StreamsHeartbeat(request, "client", "/host", version), self.now_ms)
        )
        app.take(outcome.answer)
        return outcome

    def join(self, app: Application, **options: Any) -> StreamsHeartbeatOutcome:
        app.epoch, app.owned = 0, NOTHING
        news: dict[str, Any] = {
            "topology": app.topology,
            "rebalance_timeout_ms": 30_000,
            "process_id": app.process_id or app.member_id,
            "user_endpoint": app.endpoint,
            "client_tags": [],
        }
        return self.beat(app, **{**news, **options})

    def leave(self, app: Application, epoch: int = -1, **options: Any) -> StreamsHeartbeatOutcome:
        return self.beat(app, member_epoch=epoch, active_tasks=None, standby_tasks=None, warmup_tasks=None, **options)


def _copied(held: Mapping[Any, set[str]]) -> dict[Any, set[str]]:
    return {task: set(processes) for task, processes in held.items()}
