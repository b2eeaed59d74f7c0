"""No request of groups and offsets may hold the loop for long, however much there is."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.handlers.registry import declaration
from ottla.coordinator.group.records import CommittedOffset, offset_record
from ottla.protocol.codec import request_frame
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, TopicInfo, Topology
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import api_key, newest
from tests.measuring import Limit, measured

pytestmark = [pytest.mark.heavy, measured]

LOOP_HELD_S = Limit(0.020)
GROUPS = 10_000
PARTITIONS = 10_000
MEMBERS = 1_000


class Timed:
    """A broker whose every stretch on the loop is measured in thread time."""

    def __init__(self) -> None:
        settings = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
        self.broker = SimulatedBroker(settings).start().with_coordinators()
        self.longest_s = 0.0
        self.total_s = 0.0
        self.stretches = 0
        self._soon = self.broker.env.scheduler.soon
        self._aside_s = 0.0
        self._run_aside = self.broker.env.run_aside
        self.broker.env.settle = self._settle  # type: ignore[method-assign]
        self.broker.env.run_aside = self._measured_aside  # type: ignore[method-assign]

    def _measured_aside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """What runs beside the loop is done at once here, and does not count."""
        began = time.thread_time()
        self._run_aside(work, done)
        self._aside_s += time.thread_time() - began

    def _stretch(self, work: Callable[[], object]) -> None:
        began, self._aside_s = time.thread_time(), 0.0
        work()
        held = time.thread_time() - began - self._aside_s
        self.longest_s = max(self.longest_s, held)
        self.total_s += held
        self.stretches += 1

    def _settle(self) -> None:
        while self._soon:
            self._stretch(self._soon.popleft())

    def ask(self, request: Any, version: int | None = None) -> Any:
        """The answer; how long the broker held the loop for it is in ``longest_s``."""
        client = self.broker.connect()
        key, version = api_key(request), newest(request) if version is None else version
        # The first request of an API imports its modules.
        assert declaration(key).codec
        frame = request_frame(key, version, 1, "timed", request)
        self.longest_s, self.stretches, connection = 0.0, 0, client._connection
        at = 0
        while at < len(frame):
            buffer = connection.get_buffer(-1)
            piece = frame[at : at + len(buffer)]
            buffer[: len(piece)] = piece
            at += len(piece)
            self._stretch(lambda: connection.buffer_updated(len(piece)))  # noqa: B023
            self._settle()
        answer = client.receive((key, version))
        client.close()
        return answer


@pytest.fixture
def timed() -> Iterator[Timed]:
    made = Timed()
    made.ask(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1),
                CreatableTopic(name="small", num_partitions=1, replication_factor=1),
            ],
            timeout_ms=1_000,
        ),
        7,
    )
    # A collection of the whole test process's objects is no stretch of the broker's.
    gc.disable()
    yield made
    gc.enable()
    made.broker.close()
    assert made.broker.bugs == 0


def give_offsets(timed: Timed, groups: int, topic: str) -> list[str]:
    """Groups that each have committed one offset."""
    coordinator = timed.broker.broker.groups
    names = [f"g{n}" for n in range(groups)]
    for name in names:
        shard, runtime = coordinator.shard(name)
        record = offset_record((name, topic, 0), CommittedOffset(1, -1, "", timed.broker.now_ms()))
        shard.replay(record, runtime.partition.log.log_end_offset - 1, -1, timed.broker.now_ms())
    return names


def held(timed: Timed, what: str) -> None:
    assert timed.longest_s < LOOP_HELD_S, f"{what} held the loop for {timed.longest_s * 1000:.0f} ms"


def test_many_groups(timed: Timed) -> None:
    names = give_offsets(timed, GROUPS, "small")
    assert len(timed.ask(ListGroupsRequest()).groups) == GROUPS
    held(timed, "ListGroups")
    assert {g.group_state for g in timed.ask(DescribeGroupsRequest(names)).groups} == {"Empty"}
    held(timed, "DescribeGroups")
    assert timed.ask(DeleteTopicsRequest([DeleteTopicState("small")])).responses[0].error_code == 0
    held(timed, "DeleteTopics beside many groups")
    timed.longest_s = 0.0
    timed.broker.sleep(20_000)
    held(timed, "forgetting a topic's offsets")
    coordinator = timed.broker.broker.groups
    assert not any(shard.offsets.groups for shard in coordinator.shards())
    assert {r.error_code for r in timed.ask(DeleteGroupsRequest(names)).results} == {0}
    held(timed, "DeleteGroups")
    assert timed.ask(ListGroupsRequest()).groups == []


def test_many_offsets(timed: Timed) -> None:
    topic = OffsetCommitRequestTopic(
        "t", partitions=[OffsetCommitRequestPartition(partition_index=n, committed_offset=n) for n in range(PARTITIONS)]
    )
    answer = timed.ask(
        OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", group_instance_id=None, topics=[topic]), 9
    )
    assert {p.error_code for p in answer.topics[0].partitions} == {0}
    held(timed, "OffsetCommit")
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    fetched = timed.ask(everything, 9).groups[0].topics[0].partitions
    assert sorted(p.committed_offset for p in fetched) == list(range(PARTITIONS))
    held(timed, "OffsetFetch of everything")
    half = [OffsetDeleteRequestPartition(n) for n in range(PARTITIONS // 2)]
    deleted = timed.ask(OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=half)]))
    assert {p.error_code for p in deleted.topics[0].partitions} == {0}
    held(timed, "OffsetDelete")
    assert [r.error_code for r in timed.ask(DeleteGroupsRequest(["g"])).results] == [0]
    held(timed, "DeleteGroups of one with many offsets")
    assert timed.ask(everything, 9).groups[0].topics == []
    timed.broker.restart(kill=True)
    assert not timed.broker.broker.groups.shard("g")[0].exists("g")


def test_many_internal_topics(timed: Timed) -> None:
    changelogs = [TopicInfo(name=f"changelog-{n}") for n in range(200)]
    topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["small"], state_changelog_topics=changelogs)])
    joining = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        process_id="a",
        rebalance_timeout_ms=10_000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    assert timed.ask(joining).error_code == 0
    held(timed, "StreamsGroupHeartbeat")
    assert {changelog.name for changelog in changelogs} <= timed.broker.broker.cluster.state.topics.keys()


def test_many_members(timed: Timed) -> None:
    """Each joins a group of those before it, then all join again, and the leader gives out assignments."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"s" * 50)]
    coordinator = timed.broker.broker.groups
    name = "g"

    def join(member: str) -> None:
        client = timed.broker.connect()
        frame = request_frame(
            11,
            3,
            1,
            "c",
            JoinGroupRequest(
                group_id=name,
                session_timeout_ms=100_000,
                rebalance_timeout_ms=100_000,
                member_id=member,
                group_instance_id=None,
                protocol_type="consumer",
                protocols=protocols,
            ),
        )
        connection = client._connection
        buffer = connection.get_buffer(-1)
        buffer[: len(frame)] = frame
        timed._stretch(lambda: connection.buffer_updated(len(frame)))
        timed._settle()

    timed.ask(
        JoinGroupRequest(
            group_id="other",
            session_timeout_ms=100_000,
            rebalance_timeout_ms=100_000,
            member_id="",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=protocols,
        ),
        3,
    )
    timed.longest_s = timed.total_s = 0.0
    for _ in range(MEMBERS):
        join("")
    group = coordinator.shard(name)[0].groups[name]
    first = next(iter(group.members))
    join(first)
    group = coordinator.shard(name)[0].groups[name]
    assert group.generation == 2
    assert len(group.members) == MEMBERS
    held(timed, "a member that completes a large group")
    assert timed.total_s < 0.002 * MEMBERS, f"{timed.total_s * 1000:.0f} ms in all"
    assignments = [SyncGroupRequestAssignment(member_id=m, assignment=b"a" * 20) for m in group.members]
    assert (
        timed.ask(
            SyncGroupRequest(
                group_id=name,
                generation_id=2,
                member_id=first,
                group_instance_id=None,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            ),
            5,
        ).error_code
        == 0
    )
    held(timed, "SyncGroup of the leader")
    assert len(timed.ask(DescribeGroupsRequest([name])).groups[0].members) == MEMBERS
    held(timed, "DescribeGroups of a large group")
    timed.ask(LeaveGroupRequest(group_id=name, member_id="", members=[MemberIdentity(m) for m in group.members]))
    held(timed, "LeaveGroup of all")


def test_time_costs_nothing_where_nothing_is_due(timed: Timed) -> None:
    give_offsets(timed, GROUPS, "small")
    began = time.thread_time()
    for _ in range(1_000):
        timed.broker.broker.groups.tick()
    assert time.thread_time() - began < 0.05
