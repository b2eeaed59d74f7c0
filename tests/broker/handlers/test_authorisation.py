"""A broker with an authorizer: each API refuses what the ACLs do not allow, with Kafka's error for each resource."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.create_acls import CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import Closed, SimulatedClient
from tests.broker.handlers.authorised_broker import ANONYMOUS, CLUSTER, authorised, creation, creations, grant, may, revoke_all

OPEN, SECRET = "open", "secret"
TID = "checkout"
GROUP = "readers"


def descriptions(principal: str | None = None) -> DescribeAclsRequest:
    """Return a request for all ACLs of a principal, or of all principals."""
    return DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=principal,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = authorised()
    for name in (OPEN, SECRET):
        broker.broker.cluster.create_topic(name, 1, {})
    broker.with_coordinators()
    yield broker
    broker.stop()
    assert broker.bugs == 0


@pytest.fixture
def client(broker: SimulatedBroker) -> Iterator[SimulatedClient]:
    with broker.connect() as client:
        yield client


def batch(*, transactional: bool = False) -> bytes:
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    return bytes(build_batch([(None, b"v")], 1, transactional=transactional, **fields))


def produce(*topics: str, transactional: bool = False, transactional_id: str | None = None) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=batch(transactional=transactional))]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name=topic, partition_data=data) for topic in topics],
    )


def codes_of(response: Any) -> dict[str, int]:
    return {topic.name: topic.partition_responses[0].error_code for topic in response.responses}


def test_acls_are_created_described_and_deleted(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("CLUSTER", CLUSTER, "ALTER"))
    made = client.call(creations(may("TOPIC", OPEN, "READ"), may("GROUP", "team-", "ALL", pattern="PREFIXED")))
    assert [(r.error_code, r.error_message) for r in made.results] == [(0, "")] * 2
    described = client.call(descriptions(ANONYMOUS))
    assert (described.error_code, [(r.resource_type, r.resource_name) for r in described.resources]) == (
        0,
        [(2, OPEN), (3, "team-"), (4, CLUSTER)],
    )
    deleted = client.call(
        DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter=OPEN,
                    pattern_type_filter=2,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
            ]
        )
    )
    assert [acl.resource_name for acl in deleted.filter_results[0].matching_acls] == [OPEN]
    assert len(broker.broker.cluster.state.acls.by_id) == 2


def test_acls_survive_a_restart(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("TOPIC", OPEN, "WRITE"))
    client.close()
    broker.restart(kill=True)
    with broker.connect() as again:
        assert codes_of(again.call(produce(OPEN), 12)) == {OPEN: 0}


def test_invalid_acl_is_refused_with_kafkas_message(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("CLUSTER", CLUSTER, "ALTER"))
    base = may("TOPIC", OPEN, "READ")
    request = CreateAclsRequest(creations=[creation(base, principal="alice"), creation(base, resource_name=""), creation(base)])
    results = client.call(request).results
    assert [result.error_code for result in results] == [Code.INVALID_REQUEST, Code.INVALID_REQUEST, Code.NONE]


@pytest.mark.parametrize(
    "request_of_acls",
    [descriptions(), creations(may("TOPIC", OPEN, "READ"))],
    ids=["describe", "create"],
)
def test_acl_requests_need_permission_on_the_cluster(client: SimulatedClient, request_of_acls: Any) -> None:
    response = client.call(request_of_acls)
    code = response.error_code if isinstance(request_of_acls, DescribeAclsRequest) else response.results[0].error_code
    assert code == Code.CLUSTER_AUTHORIZATION_FAILED


def test_broker_without_an_authorizer_refuses_acl_requests_and_allows_all_other_requests() -> None:
    broker = SimulatedBroker().start()
    broker.broker.cluster.create_topic(OPEN, 1, {})
    with broker.connect() as client:
        described = client.call(descriptions())
        assert (described.error_code, described.error_message) == (
            Code.SECURITY_DISABLED,
            "No Authorizer is configured on the broker",
        )
        created = client.call(creations(may("TOPIC", OPEN, "READ"))).results[0]
        assert (created.error_code, created.error_message) == (Code.SECURITY_DISABLED, "No Authorizer is configured.")
        assert codes_of(client.call(produce(OPEN), 12)) == {OPEN: 0}
    broker.stop()


def test_super_user_has_all_permissions_without_acls() -> None:
    broker = authorised({"super.users": "User:ANONYMOUS"})
    broker.broker.cluster.create_topic(OPEN, 1, {})
    with broker.connect() as client:
        assert codes_of(client.call(produce(OPEN), 12)) == {OPEN: 0}
        assert client.call(ListTransactionsRequest()).error_code == 0
    broker.stop()


def test_allow_everyone_if_no_acl_found_permits_access_only_to_resources_without_acls() -> None:
    broker = authorised({"allow.everyone.if.no.acl.found": "true"})
    for name in (OPEN, SECRET):
        broker.broker.cluster.create_topic(name, 1, {})
    grant(broker, may("TOPIC", SECRET, "READ"))
    with broker.connect() as client:
        assert codes_of(client.call(produce(OPEN, SECRET), 12)) == {OPEN: 0, SECRET: Code.TOPIC_AUTHORIZATION_FAILED}
    broker.stop()


def test_produce_needs_acl_operation_write_on_each_topic(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("TOPIC", OPEN, "WRITE"))
    codes = codes_of(client.call(produce(OPEN, SECRET, "ghost"), 12))
    assert codes == {OPEN: 0, SECRET: Code.TOPIC_AUTHORIZATION_FAILED, "ghost": Code.TOPIC_AUTHORIZATION_FAILED}
    assert broker.broker.partitions.get(SECRET, 0).log.log_end_offset == 0


def test_transactional_batches_need_write_on_the_transactional_id(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("TOPIC", OPEN, "WRITE"))
    refused = {OPEN: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert codes_of(client.call(produce(OPEN, transactional=True, transactional_id=TID), 11)) == refused
    assert codes_of(client.call(produce(OPEN, transactional=True), 11)) == refused
    # The batches, not the request's transactional id, show whether the request is transactional.
    assert codes_of(client.call(produce(OPEN, transactional_id=TID), 11)) == {OPEN: 0}
    grant(broker, may("TRANSACTIONAL_ID", TID, "WRITE"))
    code = codes_of(client.call(produce(OPEN, transactional=True, transactional_id=TID), 11))[OPEN]
    assert code != Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_one_denied_transactional_batch_refuses_the_whole_request(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("TOPIC", OPEN, "WRITE"), may("TOPIC", SECRET, "WRITE"))
    request = produce(OPEN, SECRET, transactional_id=TID)
    request.topic_data[1].partition_data = produce(SECRET, transactional=True).topic_data[0].partition_data
    assert codes_of(client.call(request, 11)) == dict.fromkeys((OPEN, SECRET), Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert broker.broker.partitions.get(OPEN, 0).log.log_end_offset == 0
    assert [(denial.resource, denial.times) for denial in broker.broker.authorizer.denials()] == [(TID, 1)]


def test_denied_transactional_batch_without_acknowledgement_closes_the_connection(
    broker: SimulatedBroker, client: SimulatedClient
) -> None:
    grant(broker, may("TOPIC", OPEN, "WRITE"))
    request = produce(OPEN, transactional=True, transactional_id=TID)
    request.acks = 0
    with pytest.raises(Closed, match="closed"):
        client.call(request, 11)
    assert broker.broker.partitions.get(OPEN, 0).log.log_end_offset == 0


def fetched(client: SimulatedClient, replica_id: int = -1) -> dict[str, int]:
    topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0, partition_max_bytes=9)]) for name in (OPEN, SECRET)]
    response = client.call(FetchRequest(replica_id=replica_id, max_bytes=99, topics=topics, session_epoch=-1), 11)
    return {topic.topic: topic.partitions[0].error_code for topic in response.responses}


def test_fetch_needs_read_on_each_topic(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("TOPIC", OPEN, "READ"))
    assert fetched(client) == {OPEN: 0, SECRET: Code.TOPIC_AUTHORIZATION_FAILED}


def test_fetch_of_a_replica_needs_cluster_action(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("TOPIC", OPEN, "READ"))
    assert fetched(client, 1) == dict.fromkeys((OPEN, SECRET), Code.TOPIC_AUTHORIZATION_FAILED)
    grant(broker, may("CLUSTER", CLUSTER, "CLUSTER_ACTION"))
    assert Code.TOPIC_AUTHORIZATION_FAILED not in fetched(client, 1).values()


def test_list_offsets_needs_describe_and_denied_topics_come_last(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("TOPIC", OPEN, "WRITE"))
    asked = [
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]) for name in (SECRET, OPEN)
    ]
    response = client.call(ListOffsetsRequest(replica_id=-1, topics=asked))
    codes = [(topic.name, topic.partitions[0].error_code) for topic in response.topics]
    assert codes == [(OPEN, 0), (SECRET, Code.TOPIC_AUTHORIZATION_FAILED)]


def described(client: SimulatedClient, names: list[str] | None, **fields: Any) -> dict[str | None, int]:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    response = client.call(MetadataRequest(topics=topics, **fields), 9)
    return {topic.name: topic.error_code for topic in response.topics}


def test_metadata_hides_topics_that_may_not_be_described(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("TOPIC", OPEN, "DESCRIBE"))
    assert described(client, None) == {OPEN: 0}
    refused = Code.TOPIC_AUTHORIZATION_FAILED
    assert described(client, [OPEN, SECRET, "ghost"]) == {OPEN: 0, SECRET: refused, "ghost": refused}
    assert "ghost" not in broker.broker.cluster.state.topics


def test_metadata_by_topic_id_does_not_reveal_the_name_without_describe(broker: SimulatedBroker, client: SimulatedClient) -> None:
    topic_id = broker.broker.cluster.state.topics[SECRET].topic_id
    response = client.call(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)]))
    assert [(t.name, t.topic_id, t.error_code) for t in response.topics] == [(None, topic_id, Code.TOPIC_AUTHORIZATION_FAILED)]


@pytest.mark.parametrize(("resource_type", "resource"), [("CLUSTER", CLUSTER), ("TOPIC", "ghost")])
def test_topic_is_created_automatically_only_with_the_create_permission(
    broker: SimulatedBroker, client: SimulatedClient, resource_type: str, resource: str
) -> None:
    grant(broker, may("TOPIC", "ghost", "DESCRIBE"))
    asked: dict[str, Any] = {"allow_auto_topic_creation": True}
    assert described(client, ["ghost"], **asked) == {"ghost": Code.TOPIC_AUTHORIZATION_FAILED}
    grant(broker, may(resource_type, resource, "CREATE"))
    assert described(client, ["ghost"], **asked) == {"ghost": 0}


def test_authorized_operations_in_responses_are_those_of_the_acls(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("TOPIC", OPEN, "READ"), may("CLUSTER", CLUSTER, "ALTER"))
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=OPEN)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = client.call(request, 9)
    assert response.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8
    assert response.cluster_authorized_operations == 1 << 7 | 1 << 8
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert client.call(asked).cluster_authorized_operations == 1 << 7 | 1 << 8
    revoke_all(broker)
    assert client.call(asked).cluster_authorized_operations == 0


@pytest.mark.parametrize(
    ("key_type", "resource_type", "refused"),
    [
        (0, "GROUP", Code.GROUP_AUTHORIZATION_FAILED),
        (1, "TRANSACTIONAL_ID", Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_find_coordinator_needs_describe(
    broker: SimulatedBroker, client: SimulatedClient, key_type: int, resource_type: str, refused: Code
) -> None:
    grant(broker, may(resource_type, "mine", "READ" if key_type == 0 else "WRITE"))
    many = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["mine", "other"])
    assert [c.error_code for c in client.call(many, 4).coordinators] == [0, refused]
    assert client.call(FindCoordinatorRequest(key_type=key_type, key="other"), 3).error_code == refused
    assert client.call(FindCoordinatorRequest(key_type=key_type, key="mine"), 3).error_code == 0


GROUP_REQUESTS: list[Any] = [
    JoinGroupRequest(group_id=GROUP, session_timeout_ms=1_000),
    HeartbeatRequest(group_id=GROUP),
    SyncGroupRequest(group_id=GROUP, protocol_type="consumer", protocol_name="range"),
]


@pytest.mark.parametrize("request_of_group", GROUP_REQUESTS, ids=lambda request: type(request).__name__)
def test_group_membership_needs_read_on_the_group(broker: SimulatedBroker, client: SimulatedClient, request_of_group: Any) -> None:
    assert client.call(request_of_group).error_code == Code.GROUP_AUTHORIZATION_FAILED
    grant(broker, may("GROUP", GROUP, "READ"))
    assert client.call(request_of_group).error_code != Code.GROUP_AUTHORIZATION_FAILED


def test_sync_group_without_a_protocol_is_refused_before_the_acl_check(client: SimulatedClient) -> None:
    assert client.call(SyncGroupRequest(group_id=GROUP)).error_code == Code.INCONSISTENT_GROUP_PROTOCOL


def committed(client: SimulatedClient) -> dict[str, int]:
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=5)])
        for name in (OPEN, SECRET)
    ]
    request = OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, topics=topics)
    return {topic.name: topic.partitions[0].error_code for topic in client.call(request, 9).topics}


def test_offset_commit_needs_read_on_group_and_topics(broker: SimulatedBroker, client: SimulatedClient) -> None:
    assert committed(client) == dict.fromkeys((OPEN, SECRET), Code.GROUP_AUTHORIZATION_FAILED)
    grant(broker, may("GROUP", GROUP, "READ"), may("TOPIC", OPEN, "READ"))
    assert committed(client) == {OPEN: 0, SECRET: Code.TOPIC_AUTHORIZATION_FAILED}


def test_offset_fetch_needs_describe_and_omits_topics_without_it(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("GROUP", GROUP, "READ"), may("TOPIC", OPEN, "READ"), may("TOPIC", SECRET, "READ"))
    committed(client)
    revoke_all(broker)
    named = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in (SECRET, OPEN)]

    def fetch(topics: list[OffsetFetchRequestTopics] | None) -> tuple[int, list[tuple[str, int]]]:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
        (group,) = client.call(request, 9).groups
        return group.error_code, [(topic.name, topic.partitions[0].error_code) for topic in group.topics]

    assert fetch(named) == (Code.GROUP_AUTHORIZATION_FAILED, [])
    grant(broker, may("GROUP", GROUP, "DESCRIBE"), may("TOPIC", OPEN, "DESCRIBE"))
    assert fetch(named) == (0, [(OPEN, 0), (SECRET, Code.TOPIC_AUTHORIZATION_FAILED)])
    assert fetch(None) == (0, [(OPEN, 0)])


def test_init_producer_id_needs_write_on_the_transactional_id() -> None:
    broker = authorised({"unstable.api.versions.enable": "true"}).with_coordinators()
    client = broker.connect()
    request = InitProducerIdRequest(transactional_id=TID, transaction_timeout_ms=1_000)
    assert client.call(request).error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    grant(broker, may("TRANSACTIONAL_ID", TID, "WRITE"))
    assert client.call(request).error_code == 0
    two_phase = InitProducerIdRequest(transactional_id=TID, transaction_timeout_ms=1_000, enable2_pc=True)
    assert client.call(two_phase, 6).error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    broker.stop()


@pytest.mark.parametrize(
    "right", [may("CLUSTER", CLUSTER, "IDEMPOTENT_WRITE"), may("TOPIC", OPEN, "WRITE")], ids=["cluster", "topic"]
)
def test_idempotent_producer_needs_write_on_a_topic_or_idempotent_write(
    broker: SimulatedBroker, client: SimulatedClient, right: Any
) -> None:
    assert client.call(InitProducerIdRequest(transactional_id=None)).error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    grant(broker, right)
    assert client.call(InitProducerIdRequest(transactional_id=None)).error_code == 0


def test_add_partitions_to_txn_needs_write_on_all_topics(broker: SimulatedBroker, client: SimulatedClient) -> None:
    def add(*topics: str) -> dict[str, int]:
        asked = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in topics]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TID, v3_and_below_producer_id=1, v3_and_below_topics=asked
        )
        response = client.call(request, 3)
        return {t.name: t.results_by_partition[0].partition_error_code for t in response.results_by_topic_v3_and_below}

    assert add(OPEN) == {OPEN: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    grant(broker, may("TRANSACTIONAL_ID", TID, "WRITE"), may("TOPIC", OPEN, "WRITE"))
    assert add(OPEN, SECRET) == {OPEN: Code.OPERATION_NOT_ATTEMPTED, SECRET: Code.TOPIC_AUTHORIZATION_FAILED}
    assert client.call(AddPartitionsToTxnRequest(), 5).error_code == Code.CLUSTER_AUTHORIZATION_FAILED


TRANSACTION_REQUESTS: list[Any] = [
    EndTxnRequest(transactional_id=TID, producer_id=1),
    AddOffsetsToTxnRequest(transactional_id=TID, group_id=GROUP),
]


@pytest.mark.parametrize("request_of_id", TRANSACTION_REQUESTS, ids=lambda request: type(request).__name__)
def test_end_txn_and_add_offsets_to_txn_need_write_on_the_transactional_id(
    broker: SimulatedBroker, client: SimulatedClient, request_of_id: Any
) -> None:
    assert client.call(request_of_id).error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    grant(broker, may("TRANSACTIONAL_ID", TID, "WRITE"))
    code = client.call(request_of_id).error_code
    is_for_group = isinstance(request_of_id, AddOffsetsToTxnRequest)
    assert code == Code.GROUP_AUTHORIZATION_FAILED if is_for_group else code not in (0, 53)


def test_transactional_offsets_need_permissions_on_transactional_id_and_group(
    broker: SimulatedBroker, client: SimulatedClient
) -> None:
    from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic

    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topics = [TxnOffsetCommitRequestTopic(name=SECRET, partitions=[partition])]
    request = TxnOffsetCommitRequest(transactional_id=TID, group_id=GROUP, topics=topics)

    def code() -> int:
        (topic,) = client.call(request, 3).topics
        value: int = topic.partitions[0].error_code
        return value

    seen = [code()]
    for right in (may("TRANSACTIONAL_ID", TID, "WRITE"), may("GROUP", GROUP, "READ")):
        grant(broker, right)
        seen.append(code())
    assert seen == [
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.TOPIC_AUTHORIZATION_FAILED,
    ]


@pytest.mark.parametrize("operation", ["ALTER", "CLUSTER_ACTION"])
def test_write_txn_markers_needs_permission_on_the_cluster(broker: SimulatedBroker, operation: str) -> None:
    from ottla.broker.apis.api import RequestContext
    from ottla.broker.handlers.registry import declaration
    from ottla.protocol.errors import KafkaError

    authorise = declaration(27).authorise
    context = RequestContext(version=1, client_id="", client_host="127.0.0.1", connection_id=1, listener="PLAINTEXT")
    assert authorise is not None
    with pytest.raises(KafkaError) as refused:
        authorise(broker.broker.authorizer, WriteTxnMarkersRequest(), context)
    assert refused.value.code is Code.CLUSTER_AUTHORIZATION_FAILED
    grant(broker, may("CLUSTER", CLUSTER, operation))
    authorise(broker.broker.authorizer, WriteTxnMarkersRequest(), context)


def test_each_cluster_api_needs_its_declared_acl_operation_on_the_cluster(broker: SimulatedBroker, client: SimulatedClient) -> None:
    assert client.call(DescribeClientQuotasRequest()).error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    grant(broker, may("CLUSTER", CLUSTER, "ALTER_CONFIGS"))
    assert client.call(DescribeClientQuotasRequest()).error_code == 0


def test_deny_acl_of_a_prefix_takes_precedence_over_an_allowed_topic(broker: SimulatedBroker, client: SimulatedClient) -> None:
    grant(broker, may("TOPIC", "*", "WRITE"), may("TOPIC", "sec", "ALL", permission="DENY", pattern="PREFIXED"))
    assert codes_of(client.call(produce(OPEN, SECRET), 12)) == {OPEN: 0, SECRET: Code.TOPIC_AUTHORIZATION_FAILED}
