"""No request about groups or offsets blocks the event loop for long, whatever the number of groups, members and offsets."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.handlers.registry import declaration
from ottla.coordinator.group.records import CommittedOffset, offset_record
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
from ottla.simulation.client import api_key
from tests.broker.holds import LOOP_HELD, MeasuredBroker
from tests.support.counting import Limit, Meter

pytestmark = pytest.mark.full

GROUPS = 10_000
PARTITIONS = 10_000
MEMBERS = 1_000
JOIN = Limit(lines=2_000, ms=5)
"""Limit of the work of one JoinGroup, whatever the number of members."""
TICK = Limit(lines=200, ms=1)
"""Limit of the work of one periodic tick, whatever the number of groups."""
WHOLE_GROUP = LOOP_HELD.with_lines(400 * MEMBERS)
"""Limit of a step that concerns every member of a group at once."""
MORE = LOOP_HELD.with_lines(150_000)
"""Limit of work that is done in chunks of a fixed size."""
AT_LEAST = 3_000
"""Minimum number of groups or partitions: fewer would be handled in a single step."""


class Measured:
    """A broker with a large topic and a small one, and a meter of how long each callback blocks the event loop."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.groups, self.partitions = (max(AT_LEAST, meter.size(n)) for n in (GROUPS, PARTITIONS))
        settings = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
        self.broker = MeasuredBroker(meter, settings)
        self.broker.start().with_coordinators()
        topics = [
            CreatableTopic(name="t", num_partitions=self.partitions, replication_factor=1),
            CreatableTopic(name="small", num_partitions=1, replication_factor=1),
        ]
        with self.broker.connect() as client:
            client.call(CreateTopicsRequest(topics=topics, timeout_ms=1_000), 7)

    def ask(self, request: Any, version: int | None = None, *, limit: Limit = LOOP_HELD) -> Any:
        """Send a request and return the response. Raises AssertionError if a callback runs longer than `limit`."""
        # Import the API's modules before the measurement, because the first request of an API would import them.
        assert declaration(api_key(request)).codec
        with self.broker.connect() as client:
            return self.broker.measure(lambda: client.call(request, version), limit, type(request).__name__)


@pytest.fixture
def measured(meter: Meter) -> Iterator[Measured]:
    made = Measured(meter)
    # A garbage collection of the whole test process would be measured as the broker's time.
    gc.disable()
    yield made
    gc.enable()
    made.broker.close()
    assert made.broker.bugs == 0


def give_offsets(measured: Measured, groups: int, topic: str) -> list[str]:
    """Create groups with one committed offset each, and return their names."""
    coordinator = measured.broker.broker.groups
    names = [f"g{n}" for n in range(groups)]
    for name in names:
        shard, runtime = coordinator.shard(name)
        record = offset_record((name, topic, 0), CommittedOffset(1, -1, "", measured.broker.now_ms()))
        shard.replay(record, runtime.partition.log.log_end_offset - 1, -1, measured.broker.now_ms())
    return names


def test_requests_for_many_groups_block_the_event_loop_briefly(measured: Measured) -> None:
    names = give_offsets(measured, measured.groups, "small")
    assert len(measured.ask(ListGroupsRequest()).groups) == measured.groups
    assert {g.group_state for g in measured.ask(DescribeGroupsRequest(names)).groups} == {"Empty"}
    assert measured.ask(DeleteTopicsRequest([DeleteTopicState("small")]), limit=MORE).responses[0].error_code == 0
    measured.broker.measure(lambda: measured.broker.sleep(20_000), MORE, "forgetting a topic's offsets")
    coordinator = measured.broker.broker.groups
    assert not any(shard.offsets.groups for shard in coordinator.shards())
    assert {r.error_code for r in measured.ask(DeleteGroupsRequest(names)).results} == {0}
    assert measured.ask(ListGroupsRequest()).groups == []


def test_requests_for_many_offsets_block_the_event_loop_briefly(measured: Measured) -> None:
    topic = OffsetCommitRequestTopic(
        "t", partitions=[OffsetCommitRequestPartition(partition_index=n, committed_offset=n) for n in range(measured.partitions)]
    )
    answer = measured.ask(
        OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", group_instance_id=None, topics=[topic]), 9
    )
    assert {p.error_code for p in answer.topics[0].partitions} == {0}
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    fetched = measured.ask(everything, 9).groups[0].topics[0].partitions
    assert sorted(p.committed_offset for p in fetched) == list(range(measured.partitions))
    half = [OffsetDeleteRequestPartition(n) for n in range(measured.partitions // 2)]
    deleted = measured.ask(OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=half)]))
    assert {p.error_code for p in deleted.topics[0].partitions} == {0}
    assert [r.error_code for r in measured.ask(DeleteGroupsRequest(["g"])).results] == [0]
    assert measured.ask(everything, 9).groups[0].topics == []
    measured.broker.restart(kill=True)
    assert not measured.broker.broker.groups.shard("g")[0].exists("g")


def test_creation_of_many_streams_internal_topics_blocks_the_event_loop_briefly(measured: Measured) -> None:
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
    assert measured.ask(joining, limit=MORE).error_code == 0
    assert {changelog.name for changelog in changelogs} <= measured.broker.broker.cluster.state.topics.keys()


def test_joins_of_many_group_members_block_the_event_loop_briefly(measured: Measured) -> None:
    """Each member joins a growing group, then all rejoin, and the leader sends the assignments."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"s" * 50)]
    coordinator = measured.broker.broker.groups
    name = "g"

    def joining(group: str, member: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=100_000,
            rebalance_timeout_ms=100_000,
            member_id=member,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=protocols,
        )

    def join(member: str) -> None:
        # JoinGroup is answered when all members have joined, so the test does not wait for the response.
        measured.broker.connect().send(joining(name, member), 3)

    measured.ask(joining("other", ""), 3)
    for _ in range(MEMBERS):
        measured.broker.measure(lambda: join(""), JOIN, "JoinGroup")
    group = coordinator.shard(name)[0].groups[name]
    first = next(iter(group.members))
    measured.broker.measure(lambda: join(first), WHOLE_GROUP, "a member that completes a large group")
    group = coordinator.shard(name)[0].groups[name]
    assert group.generation == 2
    assert len(group.members) == MEMBERS
    assignments = [SyncGroupRequestAssignment(member_id=m, assignment=b"a" * 20) for m in group.members]
    assert (
        measured.ask(
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
            limit=WHOLE_GROUP,
        ).error_code
        == 0
    )
    assert len(measured.ask(DescribeGroupsRequest([name])).groups[0].members) == MEMBERS
    measured.ask(
        LeaveGroupRequest(group_id=name, member_id="", members=[MemberIdentity(m) for m in group.members]), limit=WHOLE_GROUP
    )


def test_periodic_check_of_group_coordinators_without_due_work_executes_few_python_lines(measured: Measured) -> None:
    give_offsets(measured, measured.groups, "small")
    tick = measured.broker.broker.groups.tick
    measured.broker.measure(lambda: measured.meter.run(tick), TICK)
