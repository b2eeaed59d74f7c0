"""Responses of a single broker without security to administration tools, compared with Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Never

import pytest

from ottla.broker.partitions.partitions import NotLeader, Partitions
from ottla.protocol.errors import Code
from ottla.protocol.messages import add_raft_voter, alter_partition_reassignments, alter_replica_log_dirs, create_acls
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_controller import UnregisterControllerRequest
from ottla.protocol.primitives import NO_UUID
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.client import Closed, SimulatedClient

NO_SUCH_ID = b"\x11" * 16


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker().start()
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


@pytest.fixture
def client(broker: SimulatedBroker) -> SimulatedClient:
    client = broker.connect()
    topics = [CreatableTopic(name="a", num_partitions=2, replication_factor=1)]
    assert client.call(CreateTopicsRequest(topics=topics, timeout_ms=1000)).topics[0].error_code == 0
    return client


@pytest.mark.parametrize("unknown", range(5))
def test_acl_requests_without_an_authorizer_get_security_disabled(client: SimulatedClient, unknown: int) -> None:
    """As in Apache Kafka, an unknown kind of filter closes the connection."""
    kinds = [1, 1, 1, 1, 1]
    kinds[unknown] = 0
    request = DescribeAclsRequest(
        resource_type_filter=kinds[0],
        resource_name_filter=None,
        pattern_type_filter=kinds[1],
        principal_filter=None,
        host_filter=None,
        operation=kinds[2],
        permission_type=kinds[3],
    )
    if unknown < 4:
        with pytest.raises(Closed):
            client.call(request)
        return
    assert client.call(request).error_code == Code.SECURITY_DISABLED
    creation = create_acls.AclCreation(
        resource_type=2, resource_name="a", principal="User:a", host="*", operation=3, permission_type=3
    )
    created = client.call(create_acls.CreateAclsRequest([creation] * 2))
    assert [r.error_code for r in created.results] == [Code.SECURITY_DISABLED] * 2


def test_describe_quorum_lists_one_voter_without_lag(broker: SimulatedBroker, client: SimulatedClient) -> None:
    answer = client.call(DescribeQuorumRequest([TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(0)])]))
    (partition,) = answer.topics[0].partitions
    (voter,) = partition.current_voters
    log = broker.broker.metadata.log.log
    assert (answer.error_code, partition.error_code, partition.leader_id, partition.observers) == (0, 0, 1, [])
    assert partition.high_watermark == voter.log_end_offset == log.log_end_offset > 0
    assert (voter.replica_id, voter.replica_directory_id) == (1, broker.broker.directory_id)
    assert voter.replica_directory_id != NO_UUID
    assert [(node.node_id, len(node.listeners)) for node in answer.nodes] == [(1, 1)]


@pytest.mark.parametrize("asked", [[("a", 0)], [("__cluster_metadata", 1)], [("__cluster_metadata", 0), ("a", 0)]])
def test_describe_quorum_refuses_topics_other_than_cluster_metadata(client: SimulatedClient, asked: list[tuple[str, int]]) -> None:
    answer = client.call(
        DescribeQuorumRequest([TopicData(topic_name=name, partitions=[PartitionData(index)]) for name, index in asked])
    )
    codes = [p.error_code for t in answer.topics for p in t.partitions]
    assert (answer.error_code, codes) == (0, [Code.UNKNOWN_TOPIC_OR_PARTITION] * len(asked))
    assert answer.nodes == []


def test_quorum_voters_cannot_be_changed(broker: SimulatedBroker, client: SimulatedClient) -> None:
    own, cluster_id = broker.broker.directory_id, broker.broker.cluster_id

    def added(cluster_id: str | None, voter: int, directory: bytes, listener: str = "CONTROLLER") -> int:
        listeners = [add_raft_voter.Listener(name=listener, host="x", port=1)]
        request = add_raft_voter.AddRaftVoterRequest(
            cluster_id=cluster_id, timeout_ms=1, voter_id=voter, voter_directory_id=directory, listeners=listeners
        )
        code: int = client.call(request).error_code
        return code

    def removed(cluster_id: str | None, voter: int, directory: bytes) -> int:
        request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter, voter_directory_id=directory)
        code: int = client.call(request).error_code
        return code

    for changed in (added, removed):
        assert changed("another", 2, NO_SUCH_ID) == Code.INCONSISTENT_CLUSTER_ID
        assert changed(None, 2, NO_UUID) == changed(cluster_id, -1, NO_SUCH_ID) == Code.INVALID_REQUEST
    assert added(None, 2, NO_SUCH_ID, "PLAINTEXT") == Code.INVALID_REQUEST
    assert added(None, 1, own) == Code.DUPLICATE_VOTER
    assert added(cluster_id, 2, NO_SUCH_ID) == Code.UNSUPPORTED_VERSION
    assert removed(cluster_id, 2, NO_SUCH_ID) == removed(None, 1, own) == Code.VOTER_NOT_FOUND
    assert client.call(UnregisterBrokerRequest(2)).error_code == Code.BROKER_ID_NOT_REGISTERED
    assert client.call(UnregisterBrokerRequest(1)).error_code == Code.INVALID_REQUEST
    assert client.call(UnregisterControllerRequest(2)).error_code == Code.CONTROLLER_ID_NOT_REGISTERED
    assert client.call(UnregisterControllerRequest(1)).error_code == Code.INVALID_REQUEST


@pytest.mark.parametrize("kind", [0, 1])
def test_single_broker_answers_elect_leaders_with_election_not_needed(client: SimulatedClient, kind: int) -> None:
    def elected(*partitions: tuple[str, list[int]] | None) -> list[tuple[str, list[tuple[int, int]]]]:
        named = None if None in partitions else [TopicPartitions(topic=p[0], partitions=p[1]) for p in partitions if p]
        answer = client.call(ElectLeadersRequest(election_type=kind, topic_partitions=named))
        assert answer.error_code == 0
        results = answer.replica_election_results
        return [(r.topic, [(p.partition_id, p.error_code) for p in r.partition_result]) for r in results]

    unknown, needless = Code.UNKNOWN_TOPIC_OR_PARTITION, Code.ELECTION_NOT_NEEDED
    assert elected(("a", [0, 2, -1]), ("b", [0])) == [("a", [(0, needless), (2, unknown), (-1, unknown)]), ("b", [(0, unknown)])]
    assert elected(None) == [("a", [])]
    assert elected() == []
    refused = client.call(ElectLeadersRequest(election_type=7, topic_partitions=[TopicPartitions(topic="a", partitions=[0])]))
    assert refused.error_code == refused.replica_election_results[0].partition_result[0].error_code == Code.INVALID_REQUEST


@pytest.mark.parametrize(
    ("index", "replicas", "code"),
    [
        (0, [1], Code.NONE),
        (0, None, Code.NO_REASSIGNMENT_IN_PROGRESS),
        (0, [], Code.INVALID_REPLICA_ASSIGNMENT),
        (0, [1, 1], Code.INVALID_REPLICA_ASSIGNMENT),
        (0, [2], Code.INVALID_REPLICA_ASSIGNMENT),
        (0, [1, 2], Code.INVALID_REPLICA_ASSIGNMENT),
        (2, [1], Code.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, None, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_single_broker_refuses_partition_reassignment_to_other_brokers(
    client: SimulatedClient, index: int, replicas: list[int] | None, code: Code
) -> None:
    module = alter_partition_reassignments
    partition = module.ReassignablePartition(partition_index=index, replicas=replicas)
    answer = client.call(
        module.AlterPartitionReassignmentsRequest(topics=[module.ReassignableTopic(name="a", partitions=[partition])])
    )
    (answered,) = answer.responses[0].partitions
    assert (answer.error_code, answered.partition_index, answered.error_code) == (0, index, code)
    assert client.call(ListPartitionReassignmentsRequest(topics=None)).topics == []


def test_single_broker_refuses_to_move_replicas_to_another_log_directory(broker: SimulatedBroker, client: SimulatedClient) -> None:
    def moved(*dirs: tuple[str, str, list[int]]) -> list[tuple[str, list[tuple[int, int]]]]:
        module = alter_replica_log_dirs
        named = [
            module.AlterReplicaLogDir(path=path, topics=[module.AlterReplicaLogDirTopic(name=topic, partitions=parts)])
            for path, topic, parts in dirs
        ]
        results = client.call(module.AlterReplicaLogDirsRequest(named)).results
        return [(r.topic_name, [(p.partition_index, p.error_code) for p in r.partitions]) for r in results]

    unknown, elsewhere = Code.UNKNOWN_TOPIC_OR_PARTITION, Code.LOG_DIR_NOT_FOUND
    assert moved((DATA_DIR, "a", [0, 2])) == [("a", [(0, 0), (2, unknown)])]
    assert moved((DATA_DIR, "b", [0]), ("/other", "a", [0])) == [("b", [(0, unknown)]), ("a", [(0, elsewhere)])]
    # If a request names several directories for a partition, the last directory in the request is used.
    assert moved((DATA_DIR, "a", [0]), ("/other", "a", [0])) == [("a", [(0, elsewhere)])]
    assert moved(("/other", "a", [0]), (DATA_DIR, "a", [0])) == [("a", [(0, 0)])]
    # A follower's replica has a directory as well (ReplicaManager.alterReplicaLogDirs).
    broker.broker.partitions.get("a", 0).follow(2, 1)
    assert moved((DATA_DIR, "a", [0])) == [("a", [(0, 0)])]


def test_delegation_token_and_sasl_requests_are_refused_on_a_plaintext_listener(client: SimulatedClient) -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="a", renewers=[], max_lifetime_ms=-1)
    answer = client.call(request)
    assert answer.error_code == Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (answer.principal_name, answer.token_requester_principal_name) == ("a", "ANONYMOUS")
    assert client.call(request, 2).principal_name == "ANONYMOUS"
    assert client.call(DescribeDelegationTokenRequest(None)).error_code == Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert client.call(SaslHandshakeRequest("PLAIN")).error_code == Code.ILLEGAL_SASL_STATE
    assert client.call(SaslAuthenticateRequest(b"x")).error_code == Code.ILLEGAL_SASL_STATE


def test_alter_replica_log_dirs_without_a_local_replica_gets_replica_not_available(
    client: SimulatedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache Kafka 4.4.0 returns REPLICA_NOT_AVAILABLE for compatibility, although the broker is neither leader nor follower."""

    def replica(_: Partitions, topic: str, index: int) -> Never:
        raise NotLeader(2, 1)

    monkeypatch.setattr(Partitions, "replica", replica)
    module = alter_replica_log_dirs
    named = module.AlterReplicaLogDir(path=DATA_DIR, topics=[module.AlterReplicaLogDirTopic(name="a", partitions=[0])])
    (result,) = client.call(module.AlterReplicaLogDirsRequest([named])).results
    assert [partition.error_code for partition in result.partitions] == [Code.REPLICA_NOT_AVAILABLE]
