"""Heartbeats of streams groups: joins, epochs, target assignments, leaves, and the responses to members."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.streams.group import StreamsGroupState
from ottla.coordinator.group.streams.member import StreamsMemberState
from ottla.coordinator.group.streams.records import RECORDS
from ottla.coordinator.group.streams.requests import StreamsGroupConfig, check_heartbeat
from ottla.coordinator.group.streams.status import StatusCode
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.coordinator.group_world import FakeTopics
from tests.coordinator.streams.world import GROUP, STATEFUL, STATELESS, Application, StreamsGroupWorld


def refused(world: StreamsGroupWorld, app: Application, **options: Any) -> Code:
    before = len(world.log)
    with pytest.raises(KafkaError) as error:
        world.beat(app, **options)
    assert len(world.log) == before
    return error.value.code


def test_first_streams_group_member_gets_all_tasks() -> None:
    world, app = StreamsGroupWorld(), Application("m")
    world.join(app)
    assert app.active == {0, 1, 2, 3}
    assert app.epoch == 2, "the group epoch starts at 1 and the join increments it"
    assert app.answer.status == []
    assert world.group.state is StreamsGroupState.STABLE


def test_unchanged_streams_heartbeats_write_no_records() -> None:
    world, app = StreamsGroupWorld(), Application("m")
    world.join(app)
    before = len(world.log)
    world.beat(app)
    assert len(world.log) == before
    assert app.answer.active_tasks is None, "the member has already received its tasks"


def test_second_streams_group_member_waits_until_the_first_revokes_tasks() -> None:
    world, a, b = StreamsGroupWorld(), Application("a"), Application("b")
    world.join(a)
    world.join(b)
    assert b.active == set()
    assert world.group.members["b"].state is StreamsMemberState.UNRELEASED_TASKS
    world.beat(a)
    assert len(a.active) == 2
    assert a.epoch == 2, "the member keeps its epoch until it has revoked its tasks"
    assert world.group.state is StreamsGroupState.RECONCILING
    world.beat(b)
    assert b.active == set(), "the first member has not confirmed the revocation"
    world.settle(a, b)
    assert a.active | b.active == {0, 1, 2, 3}
    assert not a.active & b.active
    assert (a.epoch, b.epoch) == (3, 3)
    assert world.group.state is StreamsGroupState.STABLE


def test_standby_task_is_assigned_to_another_process() -> None:
    world = StreamsGroupWorld()
    world.configure(standby_replica_count=1)
    apps = [
        Application("a", "p", topology=STATEFUL),
        Application("b", "p", topology=STATEFUL),
        Application("c", "q", topology=STATEFUL),
    ]
    for app in apps:
        world.join(app)
    world.settle(*apps)
    on_p = (apps[0].active | apps[1].active), (apps[0].standby | apps[1].standby)
    assert on_p[0] == apps[2].standby
    assert on_p[1] == apps[2].active


def test_full_streams_group_refuses_a_new_member() -> None:
    world = StreamsGroupWorld(config=StreamsGroupConfig(max_size=1))
    world.join(Application("a"))
    with pytest.raises(KafkaError) as error:
        world.join(Application("b"))
    assert error.value.code is Code.GROUP_MAX_SIZE_REACHED
    world.join(Application("a"))


def test_streams_heartbeat_of_unknown_group_or_member_is_refused() -> None:
    world, app = StreamsGroupWorld(), Application("m", epoch=1)
    assert refused(world, app) is Code.GROUP_ID_NOT_FOUND
    world.join(Application("other"))
    assert refused(world, app) is Code.UNKNOWN_MEMBER_ID
    assert refused(world, app, member_epoch=-1, active_tasks=None, standby_tasks=None, warmup_tasks=None) is Code.UNKNOWN_MEMBER_ID


def test_streams_heartbeat_with_a_wrong_member_epoch_is_fenced() -> None:
    world, app = StreamsGroupWorld(), Application("m")
    world.join(app)
    assert refused(world, app, member_epoch=9) is Code.FENCED_MEMBER_EPOCH
    assert refused(world, app, member_epoch=1) is Code.FENCED_MEMBER_EPOCH


def test_streams_heartbeat_repeated_after_a_lost_response_is_accepted() -> None:
    """A heartbeat with the previous epoch is accepted if the member owns no tasks beyond its assignment."""
    world, a, b = StreamsGroupWorld(), Application("a"), Application("b")
    world.join(a)
    world.join(b)
    world.beat(a)
    world.beat(a)
    assert a.epoch == 3
    world.beat(a, member_epoch=2)
    assert a.epoch == 3
    stolen = [TaskIds(subtopology_id="0", partitions=[0, 1, 2, 3])]
    assert refused(world, a, member_epoch=2, active_tasks=stolen) is Code.FENCED_MEMBER_EPOCH
    assert refused(world, a, member_epoch=2, active_tasks=None, standby_tasks=None, warmup_tasks=None) is Code.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(("subtopology", "partition"), [("9", 0), ("0", 4), ("0", -1)])
def test_streams_heartbeat_with_unknown_owned_tasks_is_refused(subtopology: str, partition: int) -> None:
    world, app = StreamsGroupWorld(), Application("m")
    world.join(app)
    owned = [TaskIds(subtopology_id=subtopology, partitions=[partition])]
    assert refused(world, app, active_tasks=owned) is Code.INVALID_REQUEST


def test_missing_internal_topics_of_a_streams_group_are_reported_and_created() -> None:
    world = StreamsGroupWorld(topics=FakeTopics({"in": 4}))
    app = Application("m", topology=STATEFUL)
    outcome = world.join(app)
    assert app.statuses() == {StatusCode.MISSING_INTERNAL_TOPICS}
    assert outcome.missing_topics["app-store-changelog"].partition_count == 4
    assert app.active == set()
    assert world.group.state is StreamsGroupState.NOT_READY
    world.topics.counts["app-store-changelog"] = 4
    outcome = world.beat(app)
    assert app.statuses() == set()
    assert outcome.missing_topics == {}
    assert app.active == {0, 1, 2, 3}


def test_grown_source_topic_adds_streams_tasks() -> None:
    world, app = StreamsGroupWorld(), Application("m")
    world.join(app)
    world.topics.counts["in"] = 6
    world.settle(app)
    assert app.active == {0, 1, 2, 3, 4, 5}


def test_deleted_source_topic_revokes_all_streams_tasks() -> None:
    world, app = StreamsGroupWorld(), Application("m")
    world.join(app)
    del world.topics.counts["in"]
    world.settle(app)
    assert app.active == set()
    assert app.statuses() == {StatusCode.MISSING_SOURCE_TOPICS}


def test_older_streams_topology_is_stale_and_changed_topology_is_refused() -> None:
    world = StreamsGroupWorld()
    newer = Topology(epoch=1, subtopologies=STATELESS.subtopologies)
    world.join(Application("a", topology=newer))
    stale = Application("b")
    world.join(stale)
    assert StatusCode.STALE_TOPOLOGY in stale.statuses()
    with pytest.raises(KafkaError) as error:
        world.join(Application("c", topology=Topology(epoch=2, subtopologies=STATELESS.subtopologies)))
    assert error.value.code is Code.INVALID_REQUEST
    with pytest.raises(KafkaError) as error:
        world.join(Application("c", topology=Topology(epoch=1, subtopologies=STATEFUL.subtopologies)))
    assert error.value.code is Code.INVALID_REQUEST


def test_invalid_streams_topology_creates_no_group() -> None:
    world = StreamsGroupWorld()
    circle = Subtopology(subtopology_id="0", repartition_source_topics=[TopicInfo(name="r")], repartition_sink_topics=["r"])
    with pytest.raises(KafkaError) as error:
        world.join(Application("a", topology=Topology(epoch=0, subtopologies=[circle])))
    assert error.value.code is Code.STREAMS_INVALID_TOPOLOGY
    assert not world.shard.groups


def test_streams_group_member_is_removed_when_its_session_ends() -> None:
    world, a, b = StreamsGroupWorld(), Application("a"), Application("b")
    world.join(a)
    world.join(b)
    world.settle(a, b)
    world.tick(44_000)
    world.beat(a)
    world.tick(1_000)
    assert list(world.group.members) == ["a"]
    world.settle(a)
    assert a.active == {0, 1, 2, 3}


def test_streams_group_member_that_does_not_revoke_in_time_is_fenced() -> None:
    world, a, b = StreamsGroupWorld(), Application("a"), Application("b")
    world.join(a)
    world.join(b)
    world.beat(a)
    owns_all = [TaskIds(subtopology_id="0", partitions=[0, 1, 2, 3])]
    world.tick(20_000)
    world.beat(a, active_tasks=owns_all)
    assert world.group.members["a"].state is StreamsMemberState.UNREVOKED_TASKS
    world.tick(10_000)
    assert list(world.group.members) == ["b"]
    world.settle(b)
    assert b.active == {0, 1, 2, 3}


def test_member_of_an_emptied_streams_group_is_assigned_tasks_without_delay() -> None:
    """The assignment interval applies only while the group has members."""
    world, app = StreamsGroupWorld(config=StreamsGroupConfig(assignment_interval_ms=10_000)), Application("m")
    world.join(app)
    world.leave(app)
    assert world.group.state is StreamsGroupState.EMPTY
    other = Application("n")
    world.join(other)
    assert other.active == {0, 1, 2, 3}


def test_streams_members_that_join_within_the_assignment_interval_share_a_target_assignment() -> None:
    world, a, b = StreamsGroupWorld(config=StreamsGroupConfig(assignment_interval_ms=10_000)), Application("a"), Application("b")
    world.join(a)
    world.join(b)
    assert b.statuses() == {StatusCode.ASSIGNMENT_DELAYED}
    assert world.group.state is StreamsGroupState.ASSIGNING
    world.tick(10_000)
    world.settle(a, b)
    assert len(b.active) == 2


def test_new_streams_group_delays_its_first_assignment_for_more_members() -> None:
    world, a, b = StreamsGroupWorld(config=StreamsGroupConfig(initial_rebalance_delay_ms=3_000)), Application("a"), Application("b")
    world.join(a)
    assert a.statuses() == {StatusCode.ASSIGNMENT_DELAYED}
    assert a.active == set()
    world.join(b)
    world.beat(a)
    assert a.active == set()
    world.tick(3_000)
    assert world.group.assignment_epoch == world.group.metadata.epoch
    world.beat(a)
    world.beat(b)
    assert len(a.active) == len(b.active) == 2, "no member has to revoke a task"


def test_static_streams_member_keeps_its_tasks_when_it_returns_with_another_member_id() -> None:
    world = StreamsGroupWorld()
    a, b = Application("a", instance_id="i"), Application("b", instance_id="j")
    world.join(a)
    world.join(b)
    world.settle(a, b)
    epoch = world.group.metadata.epoch
    world.leave(a, epoch=-2)
    assert world.group.members["a"].member_epoch == -2
    assert set(world.group.members["a"].assigned.active["0"].values()) == {0}, (
        "tasks of a static member that left have assignment epoch 0"
    )
    successor = Application("a2", process_id="a", instance_id="i")
    world.join(successor)
    assert world.group.metadata.epoch == epoch, "the return of a static member does not change the group epoch"
    assert "a" not in world.group.members
    assert successor.active == a.active
    assert refused(world, a, member_epoch=epoch) is Code.FENCED_INSTANCE_ID


def test_streams_heartbeat_with_an_unreleased_instance_id_is_refused() -> None:
    world = StreamsGroupWorld()
    world.join(Application("a", instance_id="i"))
    with pytest.raises(KafkaError) as error:
        world.join(Application("b", instance_id="i"))
    assert error.value.code is Code.UNRELEASED_INSTANCE_ID
    assert refused(world, Application("c", instance_id="other", epoch=2)) is Code.UNKNOWN_MEMBER_ID


def test_refused_streams_members_get_the_error_messages_of_kafka() -> None:
    """The expected messages are from responses of Apache Kafka 4.4.0."""
    world, a = StreamsGroupWorld(), Application("a", instance_id="i")
    world.join(a)
    with pytest.raises(KafkaError) as error:
        world.join(Application("b", instance_id="i"))
    assert error.value.message == (
        "Static member b with instance id i cannot join the group because the instance id is owned by a member."
    )
    for sender, changed, message in (
        (Application("b", instance_id="i"), {"member_epoch": 2}, "Static member b with instance id i was fenced by member a."),
        (
            a,
            {"member_epoch": 7},
            "The streams group member has a greater member epoch (7) than the one known by the group coordinator (2)."
            " The member must abandon all its partitions and rejoin.",
        ),
        (
            a,
            {"member_epoch": 1},
            "The streams group member has a smaller member epoch (1) than the one known by the group coordinator (2)."
            " The member must abandon all its partitions and rejoin.",
        ),
    ):
        with pytest.raises(KafkaError) as error:
            world.beat(sender, **changed)
        assert error.value.message == message


def test_static_streams_member_is_fenced_when_it_does_not_return() -> None:
    world, app = StreamsGroupWorld(), Application("a", instance_id="i")
    world.join(app)
    world.leave(app, epoch=-2)
    world.tick(45_000)
    assert not world.group.members


def test_static_streams_member_that_replaces_another_keeps_its_target_assignment() -> None:
    world = StreamsGroupWorld()
    a, b = Application("a", instance_id="i"), Application("b", instance_id="j")
    world.join(a)
    world.join(b)
    world.settle(a, b)
    target = world.group.targets["a"]
    world.leave(a, epoch=-2)
    world.join(Application("a2", process_id="a", instance_id="i"))
    assert world.group.targets == {"a2": target, "b": world.group.targets["b"]}


def test_static_streams_member_that_returns_on_another_process_changes_the_target_assignment() -> None:
    """A static member on another process raises the group epoch. Its previous member id leaves the group."""
    world = StreamsGroupWorld()
    a, b = Application("a", instance_id="i"), Application("b")
    world.join(a)
    world.join(b)
    world.settle(a, b)
    epoch = world.group.metadata.epoch
    world.leave(a, epoch=-2)
    successor = Application("a2", process_id="elsewhere", instance_id="i")
    world.join(successor)
    assert world.group.metadata.epoch == epoch + 1
    assert world.group.targets.keys() == {"a2", "b"}
    world.settle(successor, b)
    assert successor.active | b.active == {0, 1, 2, 3}


def test_unchanged_target_assignments_of_streams_members_are_not_written() -> None:
    world, app = StreamsGroupWorld(), Application("m")
    world.join(app)
    before = len(world.log)
    world.configure(standby_replica_count=1)
    world.beat(app)
    assert [int.from_bytes((record.key or b"")[:2], "big") for record in world.log[before:]] == [
        RECORDS.metadata,
        RECORDS.target_metadata,
        RECORDS.current,
    ]


def test_streams_shutdown_is_reported_to_all_members_until_the_group_is_empty() -> None:
    world, a, b = StreamsGroupWorld(), Application("a"), Application("b")
    world.join(a)
    world.join(b)
    world.beat(a, shutdown_application=True)
    assert StatusCode.SHUTDOWN_APPLICATION in a.statuses()
    world.beat(b)
    assert StatusCode.SHUTDOWN_APPLICATION in b.statuses()
    world.leave(a)
    world.leave(b, shutdown_application=True)
    world.join(a)
    assert StatusCode.SHUTDOWN_APPLICATION not in a.statuses()


def test_leaving_streams_member_can_request_a_shutdown_of_the_application() -> None:
    world, a, b = StreamsGroupWorld(), Application("a"), Application("b")
    world.join(a)
    world.join(b)
    world.leave(a, shutdown_application=True)
    world.beat(b)
    assert StatusCode.SHUTDOWN_APPLICATION in b.statuses()


def test_missing_client_tags_of_a_streams_group_are_reported() -> None:
    world = StreamsGroupWorld(config=StreamsGroupConfig(rack_aware_assignment_tags=("zone", "cluster")))
    app = Application("a")
    world.join(app, client_tags=[KeyValue(key="zone", value="z")])
    assert app.statuses() == {StatusCode.MISSING_CLIENT_TAGS}
    world.beat(app, version=0)
    assert app.statuses() == set()


def test_endpoints_for_interactive_queries_are_sent_when_changed() -> None:
    world, a, b = StreamsGroupWorld(), Application("a", endpoint=Endpoint(host="ha", port=1)), Application("b")
    world.join(a)
    world.join(b)
    world.settle(a, b)
    told = b.answer.partitions_by_user_endpoint
    assert told is None, "the member has already received these endpoints"
    b.endpoint_epoch = 0
    world.beat(b)
    told = b.answer.partitions_by_user_endpoint
    assert told is not None
    assert [(one.user_endpoint.host, one.active_partitions[0].topic) for one in told] == [("ha", "in")]
    assert set(told[0].active_partitions[0].partitions) == a.active
    before = b.endpoint_epoch
    world.leave(b)
    world.settle(a)
    assert a.endpoint_epoch > before, "a changed endpoint increments the endpoint epoch"


def test_endpoint_for_interactive_queries_has_no_partitions_while_topics_are_missing() -> None:
    world = StreamsGroupWorld(topics=FakeTopics({}))
    app = Application("a", endpoint=Endpoint(host="ha", port=1))
    world.join(app)
    told = app.answer.partitions_by_user_endpoint
    assert told is not None
    assert told[0].active_partitions == []


def test_streams_task_offsets_are_stored_and_returned() -> None:
    world, app = StreamsGroupWorld(), Application("a")
    world.join(app)
    world.beat(app, task_offsets=[TaskOffset(subtopology_id="0", partition=1, offset=7)])
    world.beat(app, task_end_offsets=[TaskOffset(subtopology_id="0", partition=1, offset=9)])
    member = world.shard.describe(GROUP).members[0]
    assert [one.offset for one in (*member.task_offsets, *member.task_end_offsets)] == [7, 9]
    twice = [TaskOffset(subtopology_id="0", partition=1, offset=7)] * 2
    assert refused(world, app, task_offsets=twice) is Code.INVALID_REQUEST


def test_changed_streams_group_config_changes_the_target_assignment() -> None:
    world = StreamsGroupWorld()
    a, b = Application("a", topology=STATEFUL), Application("b", topology=STATEFUL)
    world.join(a)
    world.join(b)
    world.settle(a, b)
    world.configure(standby_replica_count=1)
    world.settle(a, b)
    assert a.standby == b.active
    assert b.standby == a.active


def test_streams_group_describe_returns_members_and_topology() -> None:
    world, app = StreamsGroupWorld(), Application("a", topology=STATEFUL, endpoint=Endpoint(host="ha", port=1))
    world.join(app)
    world.beat(app)
    group = world.shard.describe(GROUP)
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == ("Stable", 2, 2, "sticky")
    assert group.topology is not None
    assert group.topology.subtopologies is not None
    assert group.topology.subtopologies[0].state_changelog_topics[0].partitions == 4
    member = group.members[0]
    assert member.assignment == member.target_assignment
    assert [(one.subtopology_id, one.partitions) for one in member.assignment.active_tasks] == [("0", [0, 1, 2, 3])]
    assert member.user_endpoint is not None
    reloaded = world.reloaded().describe(GROUP)
    assert reloaded.topology is not None
    assert reloaded.topology.subtopologies is not None
    assert reloaded.topology.subtopologies[0].state_changelog_topics[0].partitions == 0, (
        "the partition count is the one sent by the member until a heartbeat configures the topology"
    )
    with pytest.raises(KafkaError) as error:
        world.shard.describe("other")
    assert error.value.code is Code.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "options",
    [
        {"member_id": " "},
        {"group_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"member_epoch": 1, "topology": STATELESS},
        {"member_epoch": 1, "active_tasks": None},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"active_tasks": None},
        {"warmup_tasks": [TaskIds(subtopology_id="0", partitions=[0])]},
        {"topology": Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["a.*"])])},
    ],
)
def test_invalid_streams_group_requests_are_refused(options: dict[str, Any]) -> None:
    joining: dict[str, Any] = {"topology": STATELESS, "rebalance_timeout_ms": 1}
    if options.get("member_epoch", 0) != 0:
        joining = {}
    with pytest.raises(KafkaError) as error:
        check_heartbeat(StreamsGroupWorld().request(Application("m"), **{**joining, **options}))
    assert error.value.code is Code.INVALID_REQUEST
