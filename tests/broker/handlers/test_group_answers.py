"""Edge cases of group APIs, with the responses of Apache Kafka 4.3.1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.handlers.support.common import NOT_ASKED
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient

NOT_COORDINATOR = Code.NOT_COORDINATOR
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"


@pytest.fixture
def client() -> Iterator[SimulatedClient]:
    broker = SimulatedBroker().start().with_coordinators()
    with broker.connect() as client:
        client.call(
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=1)], timeout_ms=1_000), 7
        )
        yield client
    broker.close()
    assert broker.bugs == 0


def commit(client: SimulatedClient, group: str, version: int = 8, generation: int = -1, member: str = "") -> int:
    topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=5)])]
    answer = client.call(
        OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=generation, member_id=member, group_instance_id=None, topics=topics
        ),
        version,
    )
    return answer.topics[0].partitions[0].error_code  # type: ignore[no-any-return]


def join(client: SimulatedClient, group: str, version: int, subscription: bytes = SUBSCRIPTION, kind: str = "consumer") -> Any:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription)]
    return client.call(
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            group_instance_id=None,
            protocol_type=kind,
            protocols=protocols,
        ),
        version,
    )


def sync(client: SimulatedClient, group: str, member: str, kind: str = "consumer") -> None:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member,
        group_instance_id=None,
        protocol_type=kind,
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"as")],
    )
    assert client.call(request, 5).error_code == 0


def describe(client: SimulatedClient, group: str) -> DescribedGroup:
    (group_description,) = client.call(DescribeGroupsRequest([group]), 6).groups
    assert isinstance(group_description, DescribedGroup)
    return group_description


def delete_offsets(client: SimulatedClient, group: str) -> tuple[int, list[int]]:
    topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(1)])
    answer = client.call(OffsetDeleteRequest(group_id=group, topics=[topic]), 0)
    return answer.error_code, [p.error_code for t in answer.topics for p in t.partitions]


def delete_group(client: SimulatedClient, *groups: str) -> list[int]:
    return [r.error_code for r in client.call(DeleteGroupsRequest(list(groups)), 2).results]


def test_empty_group_id_may_have_offsets(client: SimulatedClient) -> None:
    assert commit(client, "", version=9, generation=0, member="m") == 69
    assert commit(client, "", version=8, generation=0, member="m") == 22
    assert delete_group(client, "") == [69]
    assert commit(client, "") == 0
    for version in (1, 7):
        answer = client.call(
            OffsetFetchRequest(group_id="", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]), version
        )
        assert [p.committed_offset for p in answer.topics[0].partitions] == [5, -1]
    answer = client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("", topics=None)]), 9)
    assert [p.committed_offset for p in answer.groups[0].topics[0].partitions] == [5]
    assert describe(client, "").group_state == "Empty"
    assert delete_group(client, "") == [0]


def test_members_cannot_join_the_empty_group_id(client: SimulatedClient) -> None:
    assert join(client, "", 9).error_code == 24
    assert (
        client.call(
            SyncGroupRequest(
                group_id="",
                generation_id=1,
                member_id="m",
                group_instance_id=None,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[],
            ),
            5,
        ).error_code
        == 24
    )
    assert client.call(HeartbeatRequest(group_id="", generation_id=1, member_id="m"), 4).error_code == 24
    assert client.call(LeaveGroupRequest(group_id="", member_id="m", members=[MemberIdentity("m")]), 5).error_code == 24
    assert delete_offsets(client, "")[0] == 24


@pytest.mark.parametrize(("version", "code"), [(2, 22), (8, 22), (9, 69)])
def test_commit_by_a_member_of_an_unknown_group_is_refused(client: SimulatedClient, version: int, code: int) -> None:
    assert commit(client, "nobody", version, generation=1, member="m") == code


def test_describe_groups_omits_protocol_and_assignments_during_a_rebalance(client: SimulatedClient) -> None:
    member = join(client, "g", 3).member_id
    shown = describe(client, "g")
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == ("CompletingRebalance", "consumer", "")
    assert [(m.member_id, m.member_metadata, m.member_assignment) for m in shown.members] == [(member, b"", b"")]
    sync(client, "g", member)
    shown = describe(client, "g")
    assert (shown.group_state, shown.protocol_data) == ("Stable", "range")
    assert [(m.member_metadata, m.member_assignment) for m in shown.members] == [(SUBSCRIPTION, b"as")]


def test_group_offsets_are_not_deleted_when_a_subscription_is_unreadable(client: SimulatedClient) -> None:
    commit(client, "g")
    member = join(client, "g", 3, subscription=b"bad").member_id
    assert delete_offsets(client, "g") == (0, [86, 86])
    sync(client, "g", member)
    assert delete_offsets(client, "g") == (0, [86, 86])


def test_offsets_of_an_active_group_of_another_type_are_not_deleted(client: SimulatedClient) -> None:
    member = join(client, "g", 3, kind="connect").member_id
    assert delete_offsets(client, "g") == (68, [])
    sync(client, "g", member, kind="connect")
    assert delete_offsets(client, "g") == (68, [])


@pytest.mark.parametrize("restart", [False, True])
def test_simple_group_remains_after_its_offsets_are_deleted(restart: bool) -> None:
    broker = SimulatedBroker().start().with_coordinators()
    client = broker.connect()
    client.call(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=1)], timeout_ms=1_000), 7)
    assert commit(client, "s") == 0
    assert delete_offsets(client, "s") == (0, [0, 0])
    if restart:
        client.close()
        broker.restart(kill=True)
        client = broker.connect()
    assert describe(client, "s").group_state == "Empty"
    assert [g.group_id for g in client.call(ListGroupsRequest(), 5).groups] == ["s"]
    assert delete_offsets(client, "s") == (0, [0, 0])
    assert commit(client, "s", 9, generation=1, member="m") == 25
    assert delete_group(client, "s", "s") == [0]
    assert delete_group(client, "s") == [69]
    assert delete_offsets(client, "s")[0] == 69
    assert client.call(ListGroupsRequest(), 5).groups == []
    client.close()
    broker.close()
    assert broker.bugs == 0


def test_offset_fetch_response_has_unknown_topics_last(client: SimulatedClient) -> None:
    known = client.call(MetadataRequest([MetadataRequestTopic(name="t")]), 12).topics[0].topic_id
    asked = [OffsetFetchRequestTopics(topic_id=uuid, partition_indexes=[0]) for uuid in (b"5" * 16, known, b"6" * 16)]
    (group,) = client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=asked)]), 10).groups
    assert [(t.topic_id, t.partitions[0].error_code) for t in group.topics] == [(known, 0), (b"5" * 16, 100), (b"6" * 16, 100)]


@pytest.mark.parametrize(("version", "protocol"), [(4, ""), (6, ""), (7, None), (9, None)])
def test_join_group_response_member_id_required_names_no_protocol(
    client: SimulatedClient, version: int, protocol: str | None
) -> None:
    answer = join(client, "g", version)
    assert (answer.error_code, answer.protocol_name, answer.protocol_type) == (79, protocol, None)


def test_find_coordinator_error_message_depends_on_the_request_version(client: SimulatedClient) -> None:
    def coordinator_answer(version: int, key_type: int) -> tuple[int, str | None]:
        answer = client.call(FindCoordinatorRequest(key="g", key_type=key_type, coordinator_keys=["g"]), version)
        one = answer if version < 4 else answer.coordinators[0]
        return one.error_code, one.error_message

    malformed = "This most likely occurs because of a request being malformed by the client library"
    assert coordinator_answer(1, 0) == coordinator_answer(3, 1) == (0, "NONE")
    assert coordinator_answer(4, 0) == coordinator_answer(6, 1) == (0, "")
    for version in (3, 4, 6):
        code, message = coordinator_answer(version, 7)
        assert code == 42
        assert (message or "").startswith(malformed)
    assert coordinator_answer(6, 2) == (42, "")


def test_group_requests_before_consumer_offsets_exists_get_not_coordinator() -> None:
    """As in Kafka, FindCoordinator creates the internal topics. No other request about groups or transactions creates them."""
    broker = SimulatedBroker({"auto.create.topics.enable": "false"}).start()
    with broker.connect() as client:
        client.call(
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=1)], timeout_ms=1_000), 7
        )
        assert commit(client, "g") == join(client, "g", 5).error_code == NOT_COORDINATOR
        assert client.call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4).error_code == NOT_COORDINATOR
        assert client.call(LeaveGroupRequest(group_id="g", member_id="m"), 1).error_code == NOT_COORDINATOR
        assert client.call(SyncGroupRequest(group_id="g", generation_id=1, member_id="m"), 3).error_code == NOT_COORDINATOR
        assert describe(client, "g").error_code == NOT_COORDINATOR
        assert delete_group(client, "g", "") == [NOT_COORDINATOR] * 2
        assert delete_offsets(client, "g") == (NOT_COORDINATOR, [])
        assert client.call(ListGroupsRequest(), 5).groups == []
        topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
        assert (
            client.call(OffsetFetchRequest(group_id="g", topics=[topic]), 1).topics[0].partitions[0].error_code == NOT_COORDINATOR
        )
        for version in (2, 7):
            answer = client.call(OffsetFetchRequest(group_id="g", topics=[topic]), version)
            assert (answer.error_code, answer.topics) == (NOT_COORDINATOR, [])
        (group,) = client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 8).groups
        assert (group.error_code, group.topics) == (NOT_COORDINATOR, [])
        assert (
            client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4).error_code == NOT_COORDINATOR
        )
        assert client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4).error_code == 0
        assert (
            client.call(EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True), 3).error_code
            == NOT_COORDINATOR
        )
        assert (
            client.call(AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"), 3).error_code
            == NOT_COORDINATOR
        )
        assert client.call(DescribeTransactionsRequest(["x"]), 0).transaction_states[0].error_code == NOT_COORDINATOR
        assert client.call(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0).error_code == 0
        topics = [
            TxnOffsetCommitRequestTopic(
                name="t", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
            )
        ]
        answer = client.call(
            TxnOffsetCommitRequest(transactional_id="x", group_id="g", producer_id=1, producer_epoch=0, topics=topics), 3
        )
        assert answer.topics[0].partitions[0].error_code == Code.COORDINATOR_NOT_AVAILABLE
        assert set(broker.broker.cluster.state.topics) == {"t"}
        client.call(FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g"]), 4)
        assert commit(client, "g") == 0
    broker.close()
    assert broker.bugs == 0


def test_group_member_id_consists_of_client_id_and_uuid(client: SimulatedClient) -> None:
    member = join(client, "g", 5).member_id
    assert re.fullmatch("simulated-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", member), member


def test_describe_groups_6_omits_authorized_operations_of_an_unknown_group(client: SimulatedClient) -> None:
    for version, operations in ((5, 3400), (6, NOT_ASKED)):
        (group,) = client.call(DescribeGroupsRequest(groups=["nobody"], include_authorized_operations=True), version).groups
        assert group.authorized_operations == operations


def test_offset_commit_and_delete_responses_have_refused_partitions_first(client: SimulatedClient) -> None:
    client.call(CreateTopicsRequest(topics=[CreatableTopic(name="u", num_partitions=1, replication_factor=1)], timeout_ms=1_000), 7)
    asked = (("t", (0,)), ("u", (0, 9)), ("none", (0,)), ("t", ()), ("other", ()))
    topics = [
        OffsetCommitRequestTopic(n, partitions=[OffsetCommitRequestPartition(partition_index=i, committed_offset=5) for i in parts])
        for n, parts in asked
    ]
    answer = client.call(
        OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", group_instance_id=None, topics=topics), 8
    )
    codes = [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in answer.topics]
    assert codes == [("u", [(9, 3), (0, 0)]), ("none", [(0, 3)]), ("other", []), ("t", [(0, 0)])]
    deleted = [OffsetDeleteRequestTopic(name=n, partitions=[OffsetDeleteRequestPartition(i) for i in parts]) for n, parts in asked]
    answer = client.call(OffsetDeleteRequest(group_id="g", topics=deleted), 0)
    assert [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in answer.topics] == codes


def test_list_config_resources_lists_only_groups_with_configs(client: SimulatedClient) -> None:
    assert commit(client, "g") == 0
    assert client.call(ListConfigResourcesRequest([32]), 1).config_resources == []
    assert {r.resource_type for r in client.call(ListConfigResourcesRequest(), 1).config_resources} == {2, 4, 8}
