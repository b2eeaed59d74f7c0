"""Requests with many elements, one or more for each API that allows them, for `test_request_holds`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ottla.coordinator.group.named_topics import MAX_MEMBER_TOPICS
from ottla.coordinator.group.streams.requests import MAX_SUBTOPOLOGIES, MAX_TOPOLOGY_ELEMENTS
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter import Listener as VoterListener
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.protocol.messages.alter_client_quotas import EntityData as QuotaEntity
from ottla.protocol.messages.alter_client_quotas import EntryData as QuotaEntry
from ottla.protocol.messages.alter_client_quotas import OpData as QuotaOp
from ottla.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.consumer_group_heartbeat import TopicPartitions as ConsumedPartitions
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_client_quotas import ComponentData as QuotaFilter
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest
from ottla.protocol.messages.describe_quorum import PartitionData as QuorumPartition
from ottla.protocol.messages.describe_quorum import TopicData as QuorumTopic
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import AlterableConfig as IncrementalConfig
from ottla.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from ottla.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, TaskOffset, Topology
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest

MANY = 3_000
"""Number of elements of most large requests. Others have a multiple or a fraction of it."""

LONG_IDS = [f"{i}" + "x" * 32_000 for i in range(40)]
"""Transactional ids whose Java hash, which determines the coordinator, takes over a millisecond."""
BYTES = 31_000
"""Size of a large element in bytes: `MANY` elements of this size nearly reach the maximum request size."""


def configs_of(many: int, make: Callable[[str, str], Any]) -> list[Any]:
    return [make(f"c{i}", "1") for i in range(20 * many)]


EXISTING = "existing"
SLOW_PATTERNS = ",".join([*(rf"client_id=\pL\pL\pL\pL\pL{i}" for i in range(5)), "client_id=" + r"\pL" * 50])
"""The maximum number of patterns that one subscription may have, each as slow to check as possible."""


def _consumer_joins(n: int, topics: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=f"g{n}",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[f"t{i:030}" for i in range(topics)],
        topic_partitions=[],
    )


def _application_joins(n: int, subtopologies: list[Subtopology]) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        group_id=f"s{n}",
        member_id="m",
        process_id="p",
        rebalance_timeout_ms=10_000,
        topology=Topology(subtopologies=subtopologies),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


REQUESTS: dict[str, Callable[[int, int], tuple[Any, int]]] = {
    "DescribeConfigs": lambda n, many: (
        DescribeConfigsRequest([DescribeConfigsResource(resource_type=4, resource_name="1") for _ in range(many // 10)]),
        4,
    ),
    "DescribeTransactions": lambda n, many: (DescribeTransactionsRequest([f"id{i}" for i in range(20 * many)]), 0),
    "OffsetForLeaderEpoch": lambda n, many: (
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=i) for i in range(20 * many)])]
        ),
        4,
    ),
    "DescribeTransactions of long ids": lambda n, many: (DescribeTransactionsRequest(LONG_IDS), 0),
    "DescribeGroups of long ids": lambda n, many: (DescribeGroupsRequest(LONG_IDS), 6),
    "DeleteGroups of long ids": lambda n, many: (DeleteGroupsRequest(LONG_IDS), 2),
    "OffsetFetch of long ids": lambda n, many: (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(i, topics=[]) for i in LONG_IDS]),
        9,
    ),
    "OffsetFetch of all of long ids": lambda n, many: (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(i, topics=None) for i in LONG_IDS]),
        9,
    ),
    "FindCoordinator": lambda n, many: (
        FindCoordinatorRequest(key_type=1, coordinator_keys=[f"i{i}" for i in range(60 * many)]),
        4,
    ),
    "AddPartitionsToTxn": lambda n, many: (
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(range(20 * many)))],
        ),
        3,
    ),
    "AddPartitionsToTxn of many": lambda n, many: (
        AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=f"x{i}",
                    producer_id=1,
                    producer_epoch=0,
                    topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
                )
                for i in range(5 * many)
            ]
        ),
        5,
    ),
    "TxnOffsetCommit": lambda n, many: (
        TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=1,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(name=f"t{i}", partitions=[TxnOffsetCommitRequestPartition()]) for i in range(10 * many)
            ],
        ),
        3,
    ),
    "LeaveGroup": lambda n, many: (LeaveGroupRequest("g", members=[MemberIdentity(f"m{i}") for i in range(60 * many)]), 5),
    "DescribeTopicPartitions": lambda n, many: (
        DescribeTopicPartitionsRequest([TopicRequest(f"t{i}") for i in range(20 * many)]),
        0,
    ),
    "DeleteTopics of none": lambda n, many: (DeleteTopicsRequest([DeleteTopicState(f"t{i}") for i in range(20 * many)]), 6),
    "Metadata of long names": lambda n, many: (
        MetadataRequest([MetadataRequestTopic(name=f"{i}" + "\u00e9" * 16_000) for i in range(many // 2)]),
        12,
    ),
    "a large frame": lambda n, many: (
        ProduceRequest(
            acks=-1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(index=0, records=bytes(BYTES * many))])]
        ),
        9,
    ),
    "CreateTopics of many configs": lambda n, many: (
        CreateTopicsRequest(
            [
                CreatableTopic(
                    name="c", num_partitions=1, replication_factor=1, assignments=[], configs=configs_of(many, CreatableTopicConfig)
                )
            ]
        ),
        7,
    ),
    "AlterConfigs of many": lambda n, many: (
        AlterConfigsRequest([AlterConfigsResource(resource_type=4, resource_name="", configs=configs_of(many, AlterableConfig))]),
        2,
    ),
    "IncrementalAlterConfigs that deletes many": lambda n, many: (
        IncrementalAlterConfigsRequest(
            [
                IncrementalResource(
                    resource_type=4,
                    resource_name="",
                    configs=configs_of(many, lambda name, _: IncrementalConfig(name=name, config_operation=1, value=None)),
                )
            ]
        ),
        1,
    ),
    "DescribeConfigs of many keys": lambda n, many: (
        DescribeConfigsRequest(
            [DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=[f"k{i}" for i in range(60 * many)])]
        ),
        4,
    ),
    "WriteTxnMarkers of no partitions": lambda n, many: (
        WriteTxnMarkersRequest(
            [
                WritableTxnMarker(producer_id=1, producer_epoch=0, transaction_result=True, topics=[], coordinator_epoch=0)
                for _ in range(20 * many)
            ]
        ),
        1,
    ),
    "DeleteRecords": lambda n, many: (
        DeleteRecordsRequest(
            [
                DeleteRecordsTopic(
                    name="t", partitions=[DeleteRecordsPartition(partition_index=i, offset=0) for i in range(10 * many)]
                )
            ]
        ),
        2,
    ),
    "AlterClientQuotas of one large entity": lambda n, many: (
        AlterClientQuotasRequest(
            [QuotaEntry(entity=[QuotaEntity(entity_type=f"{i}", entity_name="x") for i in range(60 * many)], ops=[])]
        ),
        1,
    ),
    "AlterClientQuotas of many": lambda n, many: (
        AlterClientQuotasRequest(
            [
                QuotaEntry(
                    entity=[QuotaEntity(entity_type="user", entity_name=f"{i}")],
                    ops=[QuotaOp(key="producer_byte_rate", value=n + 1.0)],
                )
                for i in range(2 * many)
            ]
        ),
        1,
    ),
    "DescribeClientQuotas": lambda n, many: (
        DescribeClientQuotasRequest([QuotaFilter(entity_type=f"{i}", match_type=2) for i in range(60 * many)]),
        1,
    ),
    "AlterUserScramCredentials of a large password": lambda n, many: (
        AlterUserScramCredentialsRequest(
            upsertions=[
                ScramCredentialUpsertion(name="u", mechanism=1, iterations=4096, salt=b"s", salted_password=bytes(BYTES * many))
            ]
        ),
        0,
    ),
    "AlterUserScramCredentials of many": lambda n, many: (
        AlterUserScramCredentialsRequest(
            upsertions=[
                ScramCredentialUpsertion(name=f"u{i}", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")
                for i in range(2 * many)
            ]
        ),
        0,
    ),
    "DescribeUserScramCredentials": lambda n, many: (
        DescribeUserScramCredentialsRequest([UserName(f"u{i}") for i in range(20 * many)]),
        0,
    ),
    "DescribeQuorum": lambda n, many: (
        DescribeQuorumRequest([QuorumTopic(topic_name="t", partitions=[QuorumPartition(i) for i in range(60 * many)])]),
        2,
    ),
    "ElectLeaders": lambda n, many: (
        ElectLeadersRequest(election_type=0, topic_partitions=[TopicPartitions(topic="t", partitions=list(range(60 * many)))]),
        2,
    ),
    "ElectLeaders of no type": lambda n, many: (
        ElectLeadersRequest(election_type=7, topic_partitions=[TopicPartitions(topic="t", partitions=list(range(60 * many)))]),
        2,
    ),
    "AlterPartitionReassignments": lambda n, many: (
        AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name="t", partitions=[ReassignablePartition(partition_index=i, replicas=[1]) for i in range(20 * many)]
                )
            ]
        ),
        1,
    ),
    "AlterPartitionReassignments to many replicas": lambda n, many: (
        AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=EXISTING,
                    partitions=[
                        ReassignablePartition(partition_index=0, replicas=random.Random(n).sample(range(1_000_000), k=60 * many))
                    ],
                )
            ]
        ),
        1,
    ),
    "ListPartitionReassignments": lambda n, many: (
        ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(name="t", partition_indexes=list(range(60 * many)))],
        ),
        0,
    ),
    "AlterReplicaLogDirs": lambda n, many: (
        AlterReplicaLogDirsRequest(
            [AlterReplicaLogDir(path="/data", topics=[AlterReplicaLogDirTopic(name="t", partitions=list(range(60 * many)))])],
        ),
        2,
    ),
    "CreateAcls": lambda n, many: (
        CreateAclsRequest(
            [
                AclCreation(
                    resource_type=2,
                    resource_name="t",
                    resource_pattern_type=3,
                    principal="User:a",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
                for i in range(60 * many)
            ]
        ),
        3,
    ),
    "DeleteAcls": lambda n, many: (
        DeleteAclsRequest(
            [
                DeleteAclsFilter(resource_type_filter=2, pattern_type_filter=3, operation=3, permission_type=3)
                for i in range(60 * many)
            ]
        ),
        3,
    ),
    "CreateDelegationToken": lambda n, many: (
        CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type="User", principal_name=f"{i}") for i in range(60 * many)]
        ),
        3,
    ),
    "DescribeDelegationToken": lambda n, many: (
        DescribeDelegationTokenRequest(
            [DescribeDelegationTokenOwner(principal_type="User", principal_name=f"{i}") for i in range(60 * many)]
        ),
        3,
    ),
    "AddRaftVoter": lambda n, many: (
        AddRaftVoterRequest(
            voter_id=2,
            voter_directory_id=b"d" * 16,
            listeners=[VoterListener(name=f"l{i}", host="h", port=1) for i in range(60 * many)],
        ),
        1,
    ),
    "ConsumerGroupHeartbeat of many topics": lambda n, many: (_consumer_joins(n, MAX_MEMBER_TOPICS), 1),
    "ConsumerGroupHeartbeat of too many topics": lambda n, many: (_consumer_joins(n, 80 * many), 1),
    "ConsumerGroupHeartbeat of an owner of many topics": lambda n, many: (
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=3,
            topic_partitions=[
                ConsumedPartitions(topic_id=i.to_bytes(16, "big"), partitions=[] if i % 2 else [0]) for i in range(40 * many)
            ],
        ),
        1,
    ),
    "StreamsGroupHeartbeat of many topics": lambda n, many: (
        _application_joins(n, [Subtopology(subtopology_id="0", source_topics=[f"t{i:030}" for i in range(MAX_TOPOLOGY_ELEMENTS)])]),
        1,
    ),
    "StreamsGroupHeartbeat of too many topics": lambda n, many: (
        _application_joins(n, [Subtopology(subtopology_id="0", source_topics=[f"t{i:030}" for i in range(80 * many)])]),
        1,
    ),
    "StreamsGroupHeartbeat of many subtopologies": lambda n, many: (
        _application_joins(
            n,
            [
                Subtopology(subtopology_id=str(i), source_topics=[EXISTING], state_changelog_topics=[])
                for i in range(MAX_SUBTOPOLOGIES)
            ],
        ),
        1,
    ),
    "StreamsGroupHeartbeat of too many subtopologies": lambda n, many: (
        _application_joins(n, [Subtopology(subtopology_id=str(i)) for i in range(20 * many)]),
        1,
    ),
    "StreamsGroupHeartbeat of too many offsets": lambda n, many: (
        StreamsGroupHeartbeatRequest(
            group_id="s",
            member_id="m",
            member_epoch=3,
            task_offsets=[TaskOffset(subtopology_id="0", partition=i) for i in range(80 * many)],
        ),
        1,
    ),
    "ListConfigResources": lambda n, many: (ListConfigResourcesRequest([2] * 80 * many), 1),
    "ListTransactions by an expression of many Unicode classes": lambda n, many: (
        ListTransactionsRequest(transactional_id_pattern=r"\pL" * 1_600),
        2,
    ),
    "IncrementalAlterConfigs of many resources": lambda n, many: (
        IncrementalAlterConfigsRequest(
            [IncrementalResource(resource_type=32, resource_name=f"g{i}", configs=[]) for i in range(60 * many)]
        ),
        1,
    ),
    "IncrementalAlterConfigs of many groups": lambda n, many: (
        IncrementalAlterConfigsRequest(
            [
                IncrementalResource(
                    resource_type=32,
                    resource_name=f"g{n}-{i}",
                    configs=[IncrementalConfig(name="consumer.session.timeout.ms", config_operation=0, value="50000")],
                )
                for i in range(many)
            ]
        ),
        1,
    ),
    "IncrementalAlterConfigs that appends a long list": lambda n, many: (
        IncrementalAlterConfigsRequest(
            [
                IncrementalResource(
                    resource_type=4,
                    resource_name="",
                    configs=[
                        IncrementalConfig(
                            name="metric.reporters", config_operation=2, value=",".join(f"{i:x}" for i in range(7_000))
                        )
                    ],
                )
            ]
        ),
        1,
    ),
    "IncrementalAlterConfigs of the patterns of many subscriptions": lambda n, many: (
        IncrementalAlterConfigsRequest(
            [
                IncrementalResource(
                    resource_type=16,
                    resource_name=f"m{i}",
                    configs=[IncrementalConfig(name="match", config_operation=0, value=SLOW_PATTERNS)],
                )
                for i in range(40)
            ]
        ),
        1,
    ),
}

LINES = {
    # These requests spend most of their time in C functions, so a step executes few lines of Python.
    "DescribeTransactions of long ids": 4_500,
    "DescribeGroups of long ids": 4_500,
    "DeleteGroups of long ids": 4_500,
    "OffsetFetch of long ids": 4_500,
    "OffsetFetch of all of long ids": 4_500,
    "IncrementalAlterConfigs of the patterns of many subscriptions": 12_000,
    "ConsumerGroupHeartbeat of an owner of many topics": 15_000,
    # These requests are handled in one step, because a fixed maximum bounds their number of elements.
    "AddPartitionsToTxn of many": 75_000,
    "StreamsGroupHeartbeat of many topics": 75_000,
    "StreamsGroupHeartbeat of many subtopologies": 130_000,
    "IncrementalAlterConfigs that appends a long list": 220_000,
}
"""Limits, in executed lines of Python, of requests whose limit differs from `LOOP_HELD`."""
