"""Requests about streams groups (KIP-1071): heartbeats, internal topics, descriptions and offsets, also after restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.handlers.support.common import NOT_ASKED
from ottla.coordinator.group.streams.status import StatusCode
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from ottla.protocol.messages.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from tests.broker.coordinators.test_consumer_groups import make_topic
from tests.broker.handlers.authorised_broker import authorised, grant, may
from tests.broker.handlers.test_group_answers import commit, join

G = "app"
STATELESS = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["t"])])
GROUP_RESOURCE = 32
NOT_STORED = 1


def counting(replication_factor: int = 0, **configs: str) -> Topology:
    """Return the topology of a word count: a repartition topic, and a state store with a changelog topic."""
    listed = [KeyValue(key=name.replace("_", "."), value=value) for name, value in configs.items()]
    repartition = TopicInfo(name="app-repartition", partitions=3, replication_factor=replication_factor, topic_configs=listed)
    changelog = TopicInfo(name="app-changelog", replication_factor=replication_factor, topic_configs=listed)
    return Topology(
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=["t"], repartition_sink_topics=["app-repartition"]),
            Subtopology(subtopology_id="1", repartition_source_topics=[repartition], state_changelog_topics=[changelog]),
        ]
    )


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


def beat(client: SimulatedClient, member: str, epoch: int, version: int = 1, **fields: Any) -> Any:
    if epoch == 0:
        joining = {"topology": STATELESS, "rebalance_timeout_ms": 10_000, "process_id": member, "client_tags": []}
        fields = {**joining, "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], **fields}
    return client.call(StreamsGroupHeartbeatRequest(group_id=G, member_id=member, member_epoch=epoch, **fields), version)


def tasks(answer: Any) -> dict[str, list[int]]:
    return {one.subtopology_id: one.partitions for one in answer.active_tasks}


def statuses(answer: Any) -> dict[int, str]:
    return {one.status_code: one.status_detail for one in answer.status or ()}


def described(client: SimulatedClient, group: str = G, version: int = 1, **options: Any) -> DescribedGroup:
    answer: DescribedGroup = client.call(StreamsGroupDescribeRequest(group_ids=[group], **options), version).groups[0]
    return answer


def set_config(client: SimulatedClient, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=G, configs=[config])
    assert client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0


@pytest.mark.parametrize("version", [0, 1])
def test_streams_heartbeat_response_and_group_description_agree(client: SimulatedClient, version: int) -> None:
    answer = beat(client, "a", 0, version)
    assert (answer.error_code, answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (0, "a", 2, 500)
    assert (tasks(answer), answer.status) == ({"0": [0, 1]}, [])
    group = described(client, version=version)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 2, 2)
    assert (group.authorized_operations, group.topology_description_status) == (NOT_ASKED, 0)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, tasks(member.assignment)) == ("a", 2, {"0": [0, 1]})
    if version >= 1:
        assert described(client, include_topology_description=True).topology_description_status == NOT_STORED


def test_streams_heartbeat_creates_missing_internal_topics(broker: SimulatedBroker, client: SimulatedClient) -> None:
    answer = beat(client, "a", 0, topology=counting(cleanup_policy="compact"))
    assert (answer.error_code, answer.member_epoch, tasks(answer)) == (0, 2, {})
    assert list(statuses(answer)) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert "failed" not in statuses(answer)[StatusCode.MISSING_INTERNAL_TOPICS]
    assert described(client).group_state == "NotReady"
    topics = broker.broker.cluster.state.topics
    assert {name: topics[name].partition_count for name in ("app-repartition", "app-changelog")} == {
        "app-repartition": 3,
        "app-changelog": 3,
    }
    assert broker.broker.metadata.local_partitions.log_config("app-changelog").is_compacted
    broker.env.advance(1_000)
    answer = beat(client, "a", 2)
    assert (answer.member_epoch, tasks(answer), statuses(answer)) == (3, {"0": [0, 1], "1": [0, 1, 2]}, {})


@pytest.mark.parametrize(
    ("topology", "reason"),
    [(counting(replication_factor=3), "replicat"), (counting(no_such_config="1"), "no.such.config")],
)
def test_streams_heartbeat_reports_internal_topics_that_cannot_be_created(
    broker: SimulatedBroker, client: SimulatedClient, topology: Topology, reason: str
) -> None:
    for epoch in (0, 2):
        answer = beat(client, "a", epoch, topology=topology if epoch == 0 else None)
        detail = statuses(answer)[StatusCode.MISSING_INTERNAL_TOPICS]
        assert "; Creation failed: app-" in detail
        assert reason in detail.partition("failed")[2]
    assert set(broker.broker.cluster.state.topics) == {"t", "__consumer_offsets", "__transaction_state"}


def test_internal_topics_of_streams_use_the_mutation_quota_of_the_member(broker: SimulatedBroker, client: SimulatedClient) -> None:
    op = OpData(key="controller_mutation_rate", value=0.2, remove=False)
    entry = EntryData(entity=[EntityData(entity_type="client-id", entity_name=client.client_id)], ops=[op])
    assert client.call(AlterClientQuotasRequest(entries=[entry], validate_only=False)).entries[0].error_code == 0
    # The token bucket of the quota has 2.2 tokens, so the first topic exhausts it, and the second topic is refused.
    answer = beat(client, "a", 0, topology=counting())
    (detail,) = statuses(answer).values()
    assert detail.count("The throttling quota has been exceeded.") == 1
    assert answer.throttle_time_ms == 0
    created = [name for name in broker.broker.cluster.state.topics if name.startswith("app-")]
    assert len(created) == 1
    # The first heartbeat after the token bucket is refilled creates the refused topic.
    broker.env.advance(5_000)
    answer = beat(client, "a", 2)
    assert "exceeded" not in "".join(statuses(answer).values())
    assert {"app-repartition", "app-changelog"} <= set(broker.broker.cluster.state.topics)


def test_streams_heartbeat_reports_internal_topics_that_acls_forbid_to_create() -> None:
    broker = authorised().with_coordinators()
    broker.broker.cluster.create_topic("t", 2, {})
    read = [may("GROUP", G, "READ"), may("TOPIC", "t", "DESCRIBE")]
    grant(broker, *read, *(may("TOPIC", f"app-{name}", "DESCRIBE") for name in ("repartition", "changelog")))
    grant(broker, may("TOPIC", "app-repartition", "CREATE"))
    with broker.connect() as client:
        detail = statuses(beat(client, "a", 0, topology=counting()))[StatusCode.MISSING_INTERNAL_TOPICS]
    assert detail.endswith("; Unauthorized to CREATE on topics app-changelog.")
    assert "app-repartition" not in broker.broker.cluster.state.topics
    broker.close()
    assert broker.bugs == 0


def test_unknown_streams_groups_and_invalid_requests_are_refused(client: SimulatedClient) -> None:
    answer = beat(client, "a", 3)
    assert (answer.error_code, answer.error_message) == (Code.GROUP_ID_NOT_FOUND, f"Streams group {G} not found.")
    answer = beat(client, "", 0)
    assert (answer.error_code, answer.error_message) == (Code.INVALID_REQUEST, "MemberId can't be empty.")
    beat(client, "a", 0)
    assert beat(client, "b", 2).error_code == Code.UNKNOWN_MEMBER_ID
    assert beat(client, "a", 3).error_code == Code.FENCED_MEMBER_EPOCH
    group = described(client, "nobody")
    assert (group.error_code, group.error_message) == (Code.GROUP_ID_NOT_FOUND, "Group nobody not found.")
    assert commit(client, "classic") == 0
    assert described(client, "classic").error_message == "Group classic is not a streams group."
    assert described(client, "").error_code == Code.INVALID_GROUP_ID
    update = StreamsGroupTopologyDescriptionUpdateRequest(group_id=G, member_id="a")
    assert client.call(update, 0).error_code == Code.UNSUPPORTED_VERSION


def test_list_and_describe_show_the_type_of_a_streams_group(client: SimulatedClient) -> None:
    beat(client, "a", 0)
    commit(client, "classic")
    (listed,) = client.call(ListGroupsRequest(types_filter=["Streams"]), 5).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (G, "streams", "Stable", "streams")
    group = client.call(DescribeGroupsRequest(groups=[G]), 6).groups[0]
    assert (group.error_code, group.error_message) == (Code.GROUP_ID_NOT_FOUND, f"Group {G} is not a classic group.")
    assert client.call(DescribeGroupsRequest(groups=[G]), 5).groups[0].group_state == "Dead"
    consumer_group = client.call(ConsumerGroupDescribeRequest(group_ids=[G]), 1).groups[0]
    assert consumer_group.error_message == f"Group {G} is not a consumer group."
    assert client.call(DeleteGroupsRequest(groups_names=[G]), 2).results[0].error_code == Code.NON_EMPTY_GROUP
    assert beat(client, "a", -1).member_epoch == -1
    assert client.call(DeleteGroupsRequest(groups_names=[G]), 2).results[0].error_code == 0
    assert described(client).error_code == Code.GROUP_ID_NOT_FOUND


def test_streams_group_with_members_refuses_other_group_protocols(client: SimulatedClient) -> None:
    beat(client, "a", 0)
    assert join(client, G, 9).error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    beat(client, "a", -1)
    assert join(client, G, 9).error_code == Code.MEMBER_ID_REQUIRED


def test_offset_requests_check_the_member_epoch_of_a_streams_group(client: SimulatedClient) -> None:
    beat(client, "a", 0)
    assert commit(client, G, 9, 2, "a") == 0
    assert commit(client, G, 9, 3, "a") == Code.STALE_MEMBER_EPOCH
    assert commit(client, G, 9, 2, "b") == Code.UNKNOWN_MEMBER_ID


def test_configs_of_a_streams_group_take_effect_at_once(broker: SimulatedBroker, client: SimulatedClient) -> None:
    beat(client, "a", 0)
    set_config(client, "streams.heartbeat.interval.ms", "700")
    assert beat(client, "a", 2).heartbeat_interval_ms == 700
    beat(client, "b", 0)
    set_config(client, "streams.num.standby.replicas", "1")
    broker.env.advance(1_000)
    group_epoch = described(client).group_epoch
    beat(client, "b", 0)
    assert described(client).group_epoch > group_epoch


def test_streams_group_keeps_members_after_a_restart_until_their_sessions_end(broker: SimulatedBroker) -> None:
    with broker.connect() as client:
        beat(client, "a", 0)
    broker.restart(kill=True)
    with broker.connect() as client:
        answer = beat(client, "a", 2)
        assert (answer.error_code, answer.member_epoch, answer.active_tasks) == (0, 2, None)
        broker.env.advance(46_000)
        assert beat(client, "a", 2).error_code == Code.UNKNOWN_MEMBER_ID
        assert described(client).group_state == "Empty"


def test_streams_protocol_is_disabled_by_feature_or_configuration() -> None:
    for settings, features in (({"group.coordinator.rebalance.protocols": "classic"}, {}), ({}, {"streams.version": 0})):
        broker = SimulatedBroker(settings, features).start().with_coordinators()
        with broker.connect() as client:
            assert beat(client, "a", 0).error_code == Code.UNSUPPORTED_VERSION
            assert described(client).error_code == Code.UNSUPPORTED_VERSION
            if features:
                update = FeatureUpdateKey(feature="streams.version", max_version_level=1, upgrade_type=1)
                client.call(UpdateFeaturesRequest(feature_updates=[update]), 1)
                assert beat(client, "a", 0).error_code == 0
        broker.close()
