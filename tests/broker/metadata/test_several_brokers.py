"""Responses of a broker in a cluster of several: leaders, coordinators, and requests that belong to another broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.coordinator.metadata.broker_registration import BrokerRegistration, ListenerEndpoint
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.messages import topic_record
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker

OWN, OTHER, FENCED, ELSEWHERE, GONE = 1, 2, 3, 4, 9
TOPIC, TOPIC_ID, OFFSETS_ID = "t", b"t" * 16, b"o" * 16
LEADERS = (OWN, OTHER, FENCED, ELSEWHERE, GONE)
"""Leaders of the topic's partitions, by partition number."""


def registration(broker_id: int, *, listener: str = "PLAINTEXT", fenced: bool = False) -> LogRecord:
    endpoint = ListenerEndpoint(name=listener, host=f"host-{broker_id}", port=9000 + broker_id, security_protocol=0)
    return BrokerRegistration(
        broker_id=broker_id,
        broker_epoch=10 + broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        listeners=(endpoint,),
        features={},
        rack=f"rack-{broker_id}",
        is_fenced=fenced,
    ).to_record(33)


def topic(name: str, topic_id: bytes, leaders: tuple[int, ...]) -> list[LogRecord]:
    records = [metadata_record(topic_record, topic_record.TopicRecord(name=name, topic_id=topic_id))]
    for index, leader in enumerate(leaders):
        partition = PartitionRegistration(
            replicas=(leader,), isr=(leader,), leader=leader, leader_epoch=7 + index, partition_epoch=0
        )
        records.append(partition.to_record(topic_id, index))
    return records


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    """Broker 1 of a cluster of four; the other brokers exist only in its metadata log."""
    made = SimulatedBroker().start()
    others = [registration(OTHER), registration(FENCED, fenced=True), registration(ELSEWHERE, listener="INTERNAL")]
    records = [
        registration(OWN),
        *others,
        *topic(TOPIC, TOPIC_ID, LEADERS),
        *topic(OFFSETS_TOPIC, OFFSETS_ID, (OWN, OTHER, GONE)),
    ]
    assert made.broker.settings.node_id == OWN
    made.broker.cluster.metadata_log.execute(Result(None, records))
    made.restart()
    yield made
    made.close()
    assert made.bugs == 0


def call(broker: SimulatedBroker, request: Any, version: int | None = None) -> Any:
    with broker.connect() as client:
        return client.call(request, version)


def group_of(partition: int) -> str:
    """Return a group whose coordinator leads this partition of ``__consumer_offsets``."""
    return next(f"g{number}" for number in range(100) if partition_for(f"g{number}", 3) == partition)


def test_metadata_names_the_brokers_that_a_client_can_reach(broker: SimulatedBroker) -> None:
    answer = call(broker, MetadataRequest(topics=[]))
    own, other = answer.brokers
    assert own.node_id == OWN
    assert (own.host, own.port) != ("host-1", 9001), "this broker returns its own listener address, not the registered one"
    assert (other.node_id, other.host, other.port, other.rack) == (OTHER, "host-2", 9002, "rack-2")


def test_metadata_names_the_leader_of_each_partition(broker: SimulatedBroker) -> None:
    (described,) = call(broker, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])).topics
    partitions = [(p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.offline_replicas) for p in described.partitions]
    assert partitions == [
        (Code.NONE, OWN, 7, [OWN], []),
        (Code.NONE, OTHER, 8, [OTHER], []),
        (Code.LISTENER_NOT_FOUND, -1, 9, [FENCED], [FENCED]),
        (Code.LISTENER_NOT_FOUND, -1, 10, [ELSEWHERE], [ELSEWHERE]),
        (Code.LEADER_NOT_AVAILABLE, -1, 11, [GONE], [GONE]),
    ]


def test_metadata_version_0_omits_replicas_that_are_not_alive(broker: SimulatedBroker) -> None:
    (described,) = call(broker, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 0).topics
    assert [(p.error_code, p.replica_nodes, p.isr_nodes) for p in described.partitions][1:3] == [
        (Code.NONE, [OTHER], [OTHER]),
        (Code.LEADER_NOT_AVAILABLE, [], []),
    ]


def test_describe_topic_partitions_names_leaders_of_other_brokers(broker: SimulatedBroker) -> None:
    (described,) = call(broker, DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)])).topics
    assert [p.leader_id for p in described.partitions] == [OWN, OTHER, -1, -1, -1]
    assert [p.offline_replicas for p in described.partitions] == [[], [], [FENCED], [ELSEWHERE], [GONE]]


@pytest.mark.parametrize(
    ("include_fenced", "expected"), [(False, [(1, False), (2, False)]), (True, [(1, False), (2, False), (3, True)])]
)
def test_describe_cluster_lists_fenced_brokers_on_request(
    broker: SimulatedBroker, include_fenced: bool, expected: list[tuple[int, bool]]
) -> None:
    answer = call(broker, DescribeClusterRequest(include_fenced_brokers=include_fenced))
    assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == expected


def produce(broker: SimulatedBroker, *partitions: int) -> Any:
    data = [PartitionProduceData(index=index, records=bytes(build_batch([(None, b"v")], 1_000))) for index in partitions]
    topic_data = [TopicProduceData(topic_id=TOPIC_ID, partition_data=data)]
    return call(broker, ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topic_data))


@pytest.mark.parametrize("partitions", [(1,), (0, 1)], ids=["alone", "beside another"])
def test_produce_to_another_brokers_partition_is_refused_with_its_leader(
    broker: SimulatedBroker, partitions: tuple[int, ...]
) -> None:
    answer = produce(broker, *partitions)
    refused = answer.responses[0].partition_responses[-1]
    assert refused.error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (OTHER, 8)
    assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [(OTHER, "host-2", 9002)]
    assert all(p.error_code == Code.NONE and p.current_leader is None for p in answer.responses[0].partition_responses[:-1])


def test_error_response_has_no_node_endpoint_for_an_unreachable_leader(broker: SimulatedBroker) -> None:
    answer = produce(broker, 4)
    assert answer.responses[0].partition_responses[0].current_leader.leader_id == GONE
    assert answer.node_endpoints == []


def test_fetch_from_another_brokers_partition_is_refused_with_its_leader(broker: SimulatedBroker) -> None:
    produce(broker, 0)
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in (0, 1)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=partitions)])
    answer = call(broker, request)
    here, there = answer.responses[0].partitions
    assert (here.error_code, here.current_leader, len(here.records) > 0) == (Code.NONE, None, True)
    assert (there.error_code, there.current_leader.leader_id) == (Code.NOT_LEADER_OR_FOLLOWER, OTHER)
    assert [(e.node_id, e.host) for e in answer.node_endpoints] == [(OTHER, "host-2")]


def test_list_offsets_is_answered_only_by_the_leader(broker: SimulatedBroker) -> None:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)]
    answer = call(broker, ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=partitions)]))
    assert [p.error_code for p in answer.topics[0].partitions] == [Code.NONE, Code.NOT_LEADER_OR_FOLLOWER]


def test_broker_has_no_directories_for_partitions_of_other_brokers(broker: SimulatedBroker) -> None:
    produce(broker, 0, 1)
    on_disk = {(name, index) for name, index in broker.broker.directory.partitions_on_disk() if name == TOPIC}
    assert on_disk == {(TOPIC, 0)}
    assert [broker.broker.partitions.find(TOPIC, index) is not None for index in range(5)] == [True, False, False, False, False]


def test_find_coordinator_returns_the_leader_of_the_partition_of_the_key(broker: SimulatedBroker) -> None:
    groups = [group_of(partition) for partition in range(3)]
    answer = call(broker, FindCoordinatorRequest(key_type=0, coordinator_keys=groups))
    assert [(c.error_code, c.node_id) for c in answer.coordinators] == [
        (Code.NONE, OWN),
        (Code.NONE, OTHER),
        (Code.COORDINATOR_NOT_AVAILABLE, -1),
    ]
    assert (answer.coordinators[1].host, answer.coordinators[1].port) == ("host-2", 9002)
    older = [call(broker, FindCoordinatorRequest(key=group, key_type=0), 3) for group in groups]
    assert [(c.error_code, c.node_id, c.host) for c in older[1:]] == [
        (Code.NONE, OTHER, "host-2"),
        (Code.COORDINATOR_NOT_AVAILABLE, -1, ""),
    ]


def commit(broker: SimulatedBroker, group: str, partition: int) -> Code:
    partitions = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=5)]
    topics = [OffsetCommitRequestTopic(topic_id=TOPIC_ID, name=TOPIC, partitions=partitions)]
    answer = call(broker, OffsetCommitRequest(group_id=group, topics=topics))
    return Code(answer.topics[0].partitions[0].error_code)


def test_group_coordinator_accepts_offset_commits_for_partitions_led_elsewhere(broker: SimulatedBroker) -> None:
    assert commit(broker, group_of(0), 1) == Code.NONE
    assert commit(broker, group_of(0), 77) == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_request_for_a_group_of_another_coordinator_is_refused(broker: SimulatedBroker) -> None:
    assert commit(broker, group_of(1), 0) == Code.NOT_COORDINATOR


def test_transactional_id_is_served_although_other_coordinators_own_other_partitions(broker: SimulatedBroker) -> None:
    with broker.connect() as client:
        client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
        begun = client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000))
        added = client.call(
            AddOffsetsToTxnRequest(
                transactional_id="x",
                producer_id=begun.producer_id,
                producer_epoch=begun.producer_epoch,
                group_id=group_of(0),
            )
        )
    assert (begun.error_code, added.error_code) == (Code.NONE, Code.NONE)
