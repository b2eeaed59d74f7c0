"""Descriptions of topics, also while a partition has no leader."""

from __future__ import annotations

from ottla.client.admin.topics import describe
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.scripted import ScriptedBroker, ScriptedCluster


def test_topic_is_described_while_a_partition_has_no_leader() -> None:
    def partition(index: int, leader: int) -> MetadataResponsePartition:
        code = Code.NONE if leader >= 0 else Code.LEADER_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=code, partition_index=index, leader_id=leader, replica_nodes=[1, 2], isr_nodes=[1]
        )

    def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
        partitions = [
            ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=0, offset=3 if p.timestamp == -1 else 1)
            for p in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])

    topic = MetadataResponseTopic(error_code=0, name="t", partitions=[partition(0, -1), partition(1, 1)])
    metadata = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="kafka", port=9092)], topics=[topic])
    configs = DescribeConfigsResponse(results=[DescribeConfigsResult(error_code=0, resource_type=2, resource_name="t", configs=[])])
    broker = ScriptedBroker(answers={"Metadata": [metadata], "ListOffsets": offsets, "DescribeConfigs": [configs]})
    found = describe(ScriptedCluster(kafka=broker).brokers(), "t").partitions
    assert [(p.leader, p.log_start_offset, p.last_stable_offset, p.high_watermark) for p in found] == [
        (-1, None, None, None),
        (1, 1, 3, 3),
    ]
