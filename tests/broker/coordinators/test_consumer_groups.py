"""Requests about consumer groups (KIP-848): heartbeats, descriptions, listings and offsets, also after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.handlers.support.common import NOT_ASKED
from ottla.protocol.errors import Code
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from tests.broker.handlers.test_group_answers import commit, join

G = "cg"


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start().with_coordinators()
    with broker.connect() as client:
        make_topic(client, "t", 2)
    yield broker
    broker.close()
    assert broker.bugs == 0


@pytest.fixture
def client(broker: SimulatedBroker) -> Iterator[SimulatedClient]:
    with broker.connect() as client:
        yield client


def make_topic(client: SimulatedClient, name: str, count: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
    assert client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7).topics[0].error_code == 0


def beat(client: SimulatedClient, member: str, epoch: int, version: int = 1, **fields: Any) -> Any:
    if epoch == 0:
        fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 10_000, "topic_partitions": [], **fields}
    return client.call(ConsumerGroupHeartbeatRequest(group_id=G, member_id=member, member_epoch=epoch, **fields), version)


def partitions(answer: Any) -> list[list[int]]:
    return [t.partitions for t in answer.assignment.topic_partitions]


def described(client: SimulatedClient, group: str = G, **options: Any) -> DescribedGroup:
    answer: DescribedGroup = client.call(ConsumerGroupDescribeRequest(group_ids=[group], **options), 1).groups[0]
    return answer


def test_consumer_heartbeat_response_and_group_description_agree(client: SimulatedClient) -> None:
    answer = beat(client, "a", 0)
    assert (answer.error_code, answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (0, "a", 2, 500)
    assert partitions(answer) == [[0, 1]]
    group = described(client)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 2, 2)
    assert (group.assignor_name, group.authorized_operations) == ("uniform", NOT_ASKED)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.subscribed_topic_names, member.member_type) == ("a", 2, ["t"], 1)
    assert [(t.topic_name, t.partitions) for t in member.assignment.topic_partitions] == [("t", [0, 1])]
    assert [(t.topic_name, t.partitions) for t in member.target_assignment.topic_partitions] == [("t", [0, 1])]


def test_unknown_consumer_groups_and_invalid_requests_are_refused(client: SimulatedClient) -> None:
    answer = beat(client, "a", 3)
    assert (answer.error_code, answer.error_message) == (Code.GROUP_ID_NOT_FOUND, f"Consumer group {G} not found.")
    answer = beat(client, "", 0)
    assert (answer.error_code, answer.error_message) == (Code.INVALID_REQUEST, "MemberId can't be empty.")
    assert len(beat(client, "", 0, version=0).member_id) == 22
    answer = beat(client, "a", 0, server_assignor="other")
    assert answer.error_code == Code.UNSUPPORTED_ASSIGNOR
    group = described(client, "nobody")
    assert (group.error_code, group.error_message) == (Code.GROUP_ID_NOT_FOUND, "Group nobody not found.")
    assert commit(client, "classic") == 0
    assert described(client, "classic").error_message == "Group classic is not a consumer group."


def test_list_and_describe_show_the_type_of_a_consumer_group(client: SimulatedClient) -> None:
    beat(client, "a", 0)
    commit(client, "classic")
    for types, states, found in (
        ([], [], {G, "classic"}),
        (["Consumer"], [], {G}),
        (["classic"], [], {"classic"}),
        ([], ["stable"], {G}),
        (["consumer"], ["Empty"], set()),
    ):
        listed = client.call(ListGroupsRequest(types_filter=types, states_filter=states), 5).groups
        assert {g.group_id for g in listed} == found
    listed = client.call(ListGroupsRequest(types_filter=["consumer"]), 5).groups[0]
    assert (listed.protocol_type, listed.group_state, listed.group_type) == ("consumer", "Stable", "consumer")
    group = client.call(DescribeGroupsRequest(groups=[G]), 6).groups[0]
    assert (group.error_code, group.error_message) == (Code.GROUP_ID_NOT_FOUND, f"Group {G} is not a classic group.")
    assert client.call(DescribeGroupsRequest(groups=[G]), 5).groups[0].group_state == "Dead"
    assert client.call(DeleteGroupsRequest(groups_names=[G]), 2).results[0].error_code == Code.NON_EMPTY_GROUP


def test_classic_join_of_a_consumer_group_checks_the_protocol_type(client: SimulatedClient) -> None:
    beat(client, "a", 0)
    assert join(client, G, 9, kind="connect").error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    # A consumer with the classic protocol may join a group of the consumer protocol (group.consumer.migration.policy).
    assert join(client, G, 9).error_code == Code.MEMBER_ID_REQUIRED
    assert described(client).error_code == Code.NONE
    assert beat(client, "a", -1).member_epoch == -1
    assert join(client, G, 9).error_code == Code.MEMBER_ID_REQUIRED
    assert described(client).error_code == Code.GROUP_ID_NOT_FOUND


def test_offset_requests_check_the_member_epoch_of_a_consumer_group(client: SimulatedClient) -> None:
    beat(client, "a", 0)
    assert commit(client, G, 9, 2, "a") == 0
    assert commit(client, G, 9, 3, "a") == Code.STALE_MEMBER_EPOCH
    assert commit(client, G, 8, 2, "a") == Code.UNSUPPORTED_VERSION
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    for member, epoch, code in (("a", 2, 0), ("a", 1, Code.STALE_MEMBER_EPOCH), ("b", 2, Code.UNKNOWN_MEMBER_ID), (None, -1, 0)):
        asked = OffsetFetchRequestGroup(group_id=G, member_id=member, member_epoch=epoch, topics=topics)
        answer = client.call(OffsetFetchRequest(groups=[asked]), 9).groups[0]
        assert answer.error_code == code
        assert code or answer.topics[0].partitions[0].committed_offset == 5


def test_consumer_group_assignment_follows_created_grown_and_deleted_topics(
    broker: SimulatedBroker, client: SimulatedClient
) -> None:
    assert partitions(beat(client, "a", 0, subscribed_topic_names=["t", "u"])) == [[0, 1]]
    make_topic(client, "u", 1)
    broker.env.advance(1_000)
    assert sorted(partitions(beat(client, "a", 2))) == [[0], [0, 1]]
    grown = CreatePartitionsTopic(name="u", count=3, assignments=None)
    client.call(CreatePartitionsRequest(topics=[grown], timeout_ms=1_000), 3)
    broker.env.advance(1_000)
    assert sorted(partitions(beat(client, "a", 3))) == [[0, 1], [0, 1, 2]]
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1_000), 6)
    broker.env.advance(1_000)
    answer = beat(client, "a", 4, topic_partitions=[])
    assert (answer.member_epoch, partitions(answer)) == (5, [[0, 1, 2]])


def test_consumer_group_keeps_members_after_a_restart_until_their_sessions_end(broker: SimulatedBroker) -> None:
    with broker.connect() as client:
        owned = [
            TopicPartitions(topic_id=t.topic_id, partitions=t.partitions) for t in beat(client, "a", 0).assignment.topic_partitions
        ]
    broker.restart(kill=True)
    with broker.connect() as client:
        answer = beat(client, "a", 2, topic_partitions=owned)
        assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)
        broker.env.advance(46_000)
        assert beat(client, "a", 2).error_code == Code.UNKNOWN_MEMBER_ID
        assert described(client).group_state == "Empty"


def test_consumer_protocol_is_disabled_by_feature_or_configuration() -> None:
    for settings, features in (({"group.coordinator.rebalance.protocols": "classic"}, {}), ({}, {"group.version": 0})):
        broker = SimulatedBroker(settings, features).start().with_coordinators()
        with broker.connect() as client:
            assert beat(client, "a", 0).error_code == Code.UNSUPPORTED_VERSION
            assert described(client).error_code == Code.UNSUPPORTED_VERSION
            if features:
                update = FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=1)
                client.call(UpdateFeaturesRequest(feature_updates=[update]), 1)
                assert beat(client, "a", 0).error_code == 0
        broker.close()


def set_config(client: SimulatedClient, resource_type: int, name: str, key: str, value: str) -> int:
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
    code: int = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code
    return code


def test_configs_of_a_consumer_group_take_effect_at_once(broker: SimulatedBroker, client: SimulatedClient) -> None:
    assert beat(client, "a", 0).heartbeat_interval_ms == 500
    assert set_config(client, 32, G, "consumer.heartbeat.interval.ms", "7000") == 0
    assert set_config(client, 32, G, "consumer.session.timeout.ms", "60000") == 0
    assert set_config(client, 32, G, "consumer.assignment.interval.ms", "9000") == 0
    assert beat(client, "a", 2).heartbeat_interval_ms == 7_000
    broker.env.advance(50_000)
    assert beat(client, "a", 2).error_code == 0
    joined = beat(client, "b", 0)
    assert (joined.error_code, joined.member_epoch) == (0, 3)
    broker.env.advance(8_000)
    assert beat(client, "c", 0).member_epoch == 3, "the assignment interval since the last target has not passed"
    broker.env.advance(1_000)
    assert beat(client, "c", 3).member_epoch == 4
    other = client.call(
        ConsumerGroupHeartbeatRequest(
            group_id="other",
            member_id="a",
            member_epoch=0,
            subscribed_topic_names=["t"],
            rebalance_timeout_ms=10_000,
            topic_partitions=[],
        ),
        1,
    )
    assert other.heartbeat_interval_ms == 500


def test_changed_group_assignment_interval_takes_effect_at_once(broker: SimulatedBroker, client: SimulatedClient) -> None:
    beat(client, "a", 0)
    assert beat(client, "b", 0).member_epoch == 2, "the assignment interval since the last target has not passed"
    assert set_config(client, 4, "", "group.consumer.assignment.interval.ms", "0") == 0
    assert beat(client, "b", 2).member_epoch == 3
