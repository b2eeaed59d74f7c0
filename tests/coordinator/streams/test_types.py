"""Streams groups in one shard with groups of other protocols, with which they share group ids."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ottla.coordinator.group.classic.group import ClassicGroupState
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.group.streams import configuration
from ottla.coordinator.group.streams.requests import StreamsGroupConfig, StreamsHeartbeat
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from tests.coordinator.classic_world import Client
from tests.coordinator.group.test_consumer_heartbeats import refused
from tests.coordinator.group.test_group_types import GroupTypesWorld, settle_classic
from tests.coordinator.group_world import GROUP
from tests.coordinator.streams.world import STATELESS

IN = ("in", 0)


class StreamsTypesWorld(GroupTypesWorld):
    """A shard with classic groups, consumer groups and streams groups."""

    def beat_streams(self, member_id: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
        if epoch == 0:
            joining = {"topology": STATELESS, "rebalance_timeout_ms": 10_000, "process_id": member_id}
            fields = {**joining, "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], **fields}
        request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields)
        answer: StreamsGroupHeartbeatResponse
        answer = self.run(self.shard.streams_heartbeat(StreamsHeartbeat(request, "client", "/host"), self.now_ms)).answer
        return answer

    @property
    def kind(self) -> tuple[str, str]:
        view = self.shard.view(GROUP)
        assert view is not None
        return view.type_name, view.state_name


@pytest.fixture
def world() -> StreamsTypesWorld:
    return StreamsTypesWorld()


def test_empty_classic_group_becomes_a_streams_group_and_keeps_its_offsets(world: StreamsTypesWorld) -> None:
    member = settle_classic(world)
    assert world.commit(7, generation=member.generation, member=member.member_id) is Code.NONE
    with refused(Code.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a streams group."):
        world.beat_streams("a", 0)
    world.run(world.shard.membership.leave(GROUP, [(member.member_id, None)], world.now_ms))
    with refused(Code.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a streams group."):
        world.beat_streams("a", 2)
    assert world.beat_streams("a", 0).member_epoch == 2
    assert (world.kind, world.shard.groups, world.fetched()) == (("streams", "Stable"), {}, 7)
    world.reload()
    assert (world.kind, world.shard.groups, world.fetched()) == (("streams", "Stable"), {}, 7)


def test_group_with_only_offsets_becomes_a_streams_group(world: StreamsTypesWorld) -> None:
    world.commit(7)
    world.beat_streams("a", 0)
    assert (world.kind[0], world.fetched()) == ("streams", 7)


def test_empty_streams_group_is_replaced_by_a_classic_group(world: StreamsTypesWorld) -> None:
    world.beat_streams("a", 0)
    assert world.commit_at(2, "a") is Code.NONE
    with refused(Code.INCONSISTENT_GROUP_PROTOCOL):
        world.join(Client())
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.shard.membership.heartbeat(GROUP, 1, "a", None, world.now_ms)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.run(world.shard.leave(GROUP, [("a", None)], world.now_ms))
    world.beat_streams("a", -1)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.join(Client("stranger"))
    assert list(world.shard.streams.groups) == [GROUP], "a refused join changes nothing"
    settle_classic(world)
    world.reload()
    assert (world.state, world.fetched(), world.shard.streams.groups) == (ClassicGroupState.STABLE, 5, {})


def test_streams_and_consumer_groups_do_not_replace_each_other(world: StreamsTypesWorld) -> None:
    world.beat_streams("a", 0)
    world.beat_streams("a", -1)
    for epoch in (0, 2):
        with refused(Code.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a consumer group."):
            world.beat_consumer("b", epoch)
    world.delete()
    world.beat_consumer("b", 0)
    world.beat_consumer("b", -1)
    for epoch in (0, 2):
        with refused(Code.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a streams group."):
            world.beat_streams("a", epoch)


def test_streams_group_is_deleted_and_expires_only_without_members(world: StreamsTypesWorld) -> None:
    world.beat_streams("a", 0)
    world.commit_at(2, "a", topic="in")
    assert world.run(world.shard.delete_offsets(GROUP, [IN])) == {IN: Code.GROUP_SUBSCRIBED_TO_TOPIC}
    with refused(Code.NON_EMPTY_GROUP):
        world.delete()
    world.now_ms += world.config.offsets_retention_ms
    world.expire()
    assert world.shard.offset_count(GROUP) == 1, "offsets of a subscribed topic do not expire"
    world.tick()
    assert world.kind == ("streams", "Empty")
    world.expire()
    assert not world.shard.exists(GROUP)
    assert {record.value for record in {r.key: r for r in world.log}.values()} == {None}
    world.reload()
    assert not world.shard.exists(GROUP)


def many_tasks(count: int) -> Topology:
    return Topology(subtopologies=[Subtopology(subtopology_id=str(i), source_topics=["in"]) for i in range(count)])


def test_streams_topology_with_too_many_tasks_is_refused(world: StreamsTypesWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "MAX_TASKS", 8)
    with refused(Code.STREAMS_INVALID_TOPOLOGY, "The topology has 10 tasks, and may have 8 at most."):
        world.beat_streams("a", 0, topology=many_tasks(5))
    assert not world.shard.exists(GROUP)
    assert world.beat_streams("a", 0, topology=many_tasks(4)).member_epoch == 2


def test_delayed_streams_target_assignment_beyond_the_task_limit_is_postponed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = StreamsTypesWorld()
    world.config = msgspec.structs.replace(world.config, streams_of=lambda _: StreamsGroupConfig(initial_rebalance_delay_ms=100))
    world.reload()
    world.beat_streams("a", 0, topology=many_tasks(4))
    monkeypatch.setattr(configuration, "MAX_TASKS", 7)
    world.tick(200)
    assert world.kind == ("streams", "Assigning")
    monkeypatch.undo()
    assert world.beat_streams("a", world.shard.streams.groups[GROUP].members["a"].member_epoch).error_code == 0


def test_log_with_only_tombstones_loads_no_streams_group(world: StreamsTypesWorld) -> None:
    world.beat_streams("a", 0)
    world.run(world.shard.commit(GROUP, 2, "a", None, {IN: CommittedOffset(5, -1, "", 0)}, 0, transactional=True))
    shard = world.new_shard()
    for at, key in enumerate({record.key for record in world.log}):
        shard.replay(LogRecord(key, None), at, -1, world.now_ms)
    assert not shard.streams.groups
