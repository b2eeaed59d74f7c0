"""Admin requests about share groups: descriptions, listings, offsets and deletion, also after a restart or a refused write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import SHARE_STATE_TOPIC
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.steps import run
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from tests.broker.coordinators.test_consumer_groups import make_topic
from tests.broker.handlers.test_group_answers import join
from tests.broker.share_world import ACCEPT, Sharer, produce, set_group


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start().with_coordinators()
    with broker.connect() as client:
        make_topic(client, "t", 2)
        set_group(client, auto_offset_reset="earliest")
    yield broker
    broker.close()
    assert broker.bugs == 0


@pytest.fixture
def client(broker: SimulatedBroker) -> Iterator[SimulatedClient]:
    with broker.connect() as client:
        yield client


def joined(broker: SimulatedBroker, member: str = "a") -> Sharer:
    sharer = Sharer(broker, member).joined()
    broker.sleep(100)
    sharer.beat()
    return sharer


def offsets(client: SimulatedClient, *partitions: int, topic: str | None = None, group: str = "g") -> list[Any]:
    topics = None if topic is None else [DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=list(partitions))]
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
    (answer,) = client.call(DescribeShareGroupOffsetsRequest(groups=[asked])).groups
    assert answer.error_code == 0
    return [(t.topic_name, p.partition_index, p.start_offset, p.lag) for t in answer.topics for p in t.partitions]


def alter(client: SimulatedClient, topic: str = "t", group: str = "g", **starts: int) -> Any:
    partitions = [AlterShareGroupOffsetsRequestPartition(partition_index=int(p[1:]), start_offset=o) for p, o in starts.items()]
    asked = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
    return client.call(AlterShareGroupOffsetsRequest(group_id=group, topics=[asked]))


def all_states(broker: SimulatedBroker) -> list[ShareKey]:
    return [key for shard in broker.broker.share_states.shards() for key in shard.persisted]


def delete_offsets(client: SimulatedClient, *topics: str, group: str = "g") -> Any:
    asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    return client.call(DeleteShareGroupOffsetsRequest(group_id=group, topics=asked))


def test_share_group_is_described_and_listed(broker: SimulatedBroker, client: SimulatedClient) -> None:
    joined(broker)
    (group,) = client.call(ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)).groups
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 3, 3)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.client_host, member.subscribed_topic_names) == (
        "a",
        3,
        "/simulated",
        ["t"],
    )
    assert [(t.topic_name, t.partitions) for t in member.assignment.topic_partitions] == [("t", [0, 1])]
    (listed,) = client.call(ListGroupsRequest(types_filter=["Share"])).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == ("g", "share", "Stable", "share")
    assert client.call(ListGroupsRequest(types_filter=["consumer"])).groups == []


def test_share_group_describe_refuses_groups_of_other_types(broker: SimulatedBroker, client: SimulatedClient) -> None:
    joined(broker)
    join(client, "classic", 3)
    answers = client.call(ShareGroupDescribeRequest(group_ids=["none", "classic", ""])).groups
    assert [(g.error_code, g.error_message) for g in answers] == [
        (Code.GROUP_ID_NOT_FOUND, "Group none not found."),
        (Code.GROUP_ID_NOT_FOUND, "Group classic is not a share group."),
        (Code.INVALID_GROUP_ID, None),
    ]
    (as_consumer,) = client.call(ConsumerGroupDescribeRequest(group_ids=["g"])).groups
    assert as_consumer.error_message == "Group g is not a consumer group."
    (as_classic,) = client.call(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert (as_classic.error_code, as_classic.error_message) == (Code.GROUP_ID_NOT_FOUND, "Group g is not a classic group.")
    assert join(client, "g", 3).error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert alter(client, group="classic", p0=1).error_code == Code.GROUP_ID_NOT_FOUND


def test_describe_share_group_offsets_returns_start_offset_and_lag(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = joined(broker)
    assert offsets(client) == [("t", 0, -1, -1), ("t", 1, -1, -1)]
    produce(client, 5)
    a.acquire()
    a.acknowledge((0, 1, ACCEPT), (3, 3, ACCEPT))
    assert offsets(client, 0, topic="t") == [("t", 0, 0, 2)], "two records remain; the start offset moves with the next write"
    assert offsets(client, 0, 7, topic="none") == [("none", 0, -1, -1), ("none", 7, -1, -1)]
    assert offsets(client, 9, topic="t") == [("t", 9, -1, -1)]
    assert offsets(client, group="nobody") == []


def test_alter_share_group_offsets_changes_only_empty_groups(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = joined(broker)
    produce(client, 5)
    a.acquire()
    assert alter(client, p0=1).error_code == Code.NON_EMPTY_GROUP
    a.beat(member_epoch=-1)
    answer = alter(client, p0=3, p7=1)
    assert [(p.partition_index, p.error_code) for p in answer.responses[0].partitions] == [
        (0, 0),
        (7, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert alter(client, "none", p0=3).responses[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets(client, 0, topic="t") == [("t", 0, 3, 2)]
    # The share session continues, but its acquired records were released.
    assert a.acquire() == [(3, 4, 1)]
    assert alter(client, group="new", p0=4).error_code == 0
    assert offsets(client, group="new") == [("t", 0, 4, 1)]


def test_duplicate_topics_in_alter_share_group_offsets_are_altered_together(
    broker: SimulatedBroker, client: SimulatedClient
) -> None:
    named = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name="t",
            partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=p, start_offset=o) for p, o in starts.items()],
        )
        for starts in ({0: 3, 9: 1}, {1: 4})
    ]
    (answer,) = client.call(AlterShareGroupOffsetsRequest(group_id="g", topics=named)).responses
    codes = {p.partition_index: p.error_code for p in answer.partitions}
    assert codes == {0: Code.NONE, 1: Code.NONE, 9: Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert [(partition, start) for _, partition, start, _ in offsets(client, 0, 1, topic="t")] == [(0, 3), (1, 4)]


def test_delete_share_group_offsets_removes_share_state(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = joined(broker)
    produce(client, 2)
    a.acquire()
    a.acknowledge((0, 1, ACCEPT))
    assert delete_offsets(client, "t").error_code == Code.NON_EMPTY_GROUP
    a.beat(member_epoch=-1)
    answer = delete_offsets(client, "none", "t")
    assert [(t.topic_name, t.error_code) for t in answer.responses] == [("t", 0), ("none", Code.UNKNOWN_TOPIC_OR_PARTITION)]
    assert offsets(client) == []
    again = delete_offsets(client, "t").responses[0]
    assert (again.error_code, again.error_message) == (Code.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")
    assert delete_offsets(client, "t", group="none").error_code == Code.GROUP_ID_NOT_FOUND
    assert delete_offsets(client, "t", group="").error_code == Code.INVALID_GROUP_ID
    b = joined(broker, "b")
    assert b.acquire() == [(0, 1, 1)]


def test_deletion_of_a_share_group_deletes_its_share_state(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = joined(broker)
    produce(client, 2)
    a.acquire()
    a.acknowledge((0, 1, ACCEPT))
    assert client.call(DeleteGroupsRequest(["g"])).results[0].error_code == Code.NON_EMPTY_GROUP
    a.beat(member_epoch=-1)
    assert client.call(DeleteGroupsRequest(["g"])).results[0].error_code == 0
    assert client.call(ListGroupsRequest()).groups == []
    assert all_states(broker) == []
    broker.restart(kill=True)
    with broker.connect() as again:
        assert again.call(ListGroupsRequest()).groups == []


def test_share_group_deleted_during_initialization_leaves_no_share_state(broker: SimulatedBroker, client: SimulatedClient) -> None:
    """Share states are initialized in steps, and other requests run between the steps."""
    make_topic(client, "large", 500)
    shard, runtime = broker.broker.groups.shard("g")
    altered = runtime.execute(shard.shares.alter_offsets("g", [("large", dict.fromkeys(range(500), 0))]))
    assert altered.initialization is not None
    steps = broker.broker.share_groups.initialize(altered.initialization)
    steps.send(None)
    assert 0 < len(all_states(broker)) < 500
    assert client.call(DeleteGroupsRequest(["g"])).results[0].error_code == 0
    run(steps)
    assert all_states(broker) == []


@pytest.mark.parametrize("kill", [False, True])
def test_share_group_keeps_members_after_a_restart_until_their_sessions_end(broker: SimulatedBroker, kill: bool) -> None:
    a = joined(broker)
    broker.restart(kill=kill)
    a.client = broker.connect()
    assert (a.beat().error_code, a.epoch) == (0, 3)
    broker.sleep(45_100)
    assert a.beat().error_code == Code.UNKNOWN_MEMBER_ID


def test_deleted_topic_is_removed_from_share_group_state(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = joined(broker)
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1_000))
    broker.sleep(6_000)
    (shard,) = (shard for shard in broker.broker.groups.shards() if "g" in shard.shares.groups)
    states = shard.shares.groups["g"].states
    assert states is not None
    assert not states.topic_ids()
    make_topic(client, "t", 1)
    a.beat()
    broker.sleep(200)
    a.beat()
    produce(client, 1)
    assert a.acquire() == [(0, 0, 1)]


def test_retriable_errors_of_the_share_coordinator_are_retried(
    broker: SimulatedBroker, client: SimulatedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)

    with monkeypatch.context() as patched:
        patched.setattr(broker.broker.share_states, "initialize", refused)
        a = Sharer(broker, "a")
        assert a.beat().error_code == 0
        assert alter(client, group="other", p0=1).responses[0].partitions[0].error_code == Code.COORDINATOR_NOT_AVAILABLE
    a.beat()
    broker.sleep(200)
    assert a.beat().assignment is not None
    with monkeypatch.context() as patched:
        patched.setattr(broker.broker.share_states, "delete", refused)
        a.beat(member_epoch=-1)
        assert client.call(DeleteGroupsRequest(["g"])).results[0].error_code == Code.COORDINATOR_NOT_AVAILABLE
        assert delete_offsets(client, "t").responses[0].error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert client.call(DeleteGroupsRequest(["g"])).results[0].error_code == 0


def test_share_acknowledgement_is_not_confirmed_when_its_write_is_refused(
    broker: SimulatedBroker, client: SimulatedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)

    a = joined(broker)
    produce(client, 2)
    assert a.acquire() == [(0, 1, 1)]
    with monkeypatch.context() as patched:
        patched.setattr(broker.broker.share_states, "write", refused)
        assert a.acknowledge((0, 1, ACCEPT)).responses[0].partitions[0].error_code == Code.COORDINATOR_NOT_AVAILABLE
        broker.sleep(31_000)
        # The lock has expired, even though the expiry could not be written.
        assert a.acquire() == [(0, 1, 2)]
    assert a.acknowledge((0, 1, ACCEPT)).responses[0].partitions[0].error_code == 0
    assert SHARE_STATE_TOPIC in broker.broker.cluster.state.topics


def test_share_state_lost_in_a_power_cut_is_initialized_again(broker: SimulatedBroker, client: SimulatedClient) -> None:
    """In `__consumer_offsets` the state is "initialized", but its only snapshot is missing in `__share_group_state`."""
    a = joined(broker)
    produce(client, 3)
    assert a.acquire() == [(0, 2, 1)]
    a.acknowledge((0, 1, ACCEPT))
    a.client.close()
    broker.broker.share_states.delete(ShareKey("g", a.topic_id, 0))
    broker.kill()
    broker.start()
    b = Sharer(broker, "a", epoch=a.epoch)
    answer = b.fetch()
    assert answer.responses[0].partitions[0].error_code == Code.UNKNOWN_SERVER_ERROR
    b.beat()
    broker.sleep(1_000)
    b.beat()
    assert b.acquire() == [(0, 2, 1)], "no record is skipped"
    b.acknowledge((0, 2, ACCEPT))
    produce_again = broker.connect()
    produce(produce_again, 1)
    assert b.acquire() == [(3, 3, 1)]
