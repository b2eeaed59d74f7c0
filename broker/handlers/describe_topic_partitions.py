"""DescribeTopicPartitions, version 0 (KIP-966): topics in pages, by name, with a cursor."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.common import TOPIC_OPERATIONS
from coordinator.cluster import Topic, check_topic_name
from protocol.errors import Code, KafkaError
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from protocol.primitives import NO_UUID


def handle(context: Context, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    broker = context.broker
    state = broker.cluster.state
    if not _is_sound(request):
        return failed(request, context.version, Code.INVALID_REQUEST)
    names = sorted({t.name for t in request.topics} or state.topics)
    first, start = "", 0
    if request.cursor is not None:
        first, start = request.cursor.topic_name, request.cursor.partition_index
    left = min(max(request.response_partition_limit, 1), broker.settings.max_request_partition_size_limit)
    answers: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if name < first:
            continue
        topic = state.topics.get(name)
        if topic is None:
            if request.topics:
                answers.append(_missing(name))
            continue
        begin = start if name == first else 0
        if left == 0:
            return DescribeTopicPartitionsResponse(0, answers, Cursor(name, begin))
        # A cursor may lie behind the last partition: the topic is told of, without partitions, as in Kafka.
        end = max(begin, min(topic.partition_count, begin + left))
        answers.append(_describe(broker.settings.node_id, topic, begin, end))
        left -= end - begin
        if end < topic.partition_count:
            return DescribeTopicPartitionsResponse(0, answers, Cursor(name, end))
    return DescribeTopicPartitionsResponse(0, answers, None)


def _is_sound(request: DescribeTopicPartitionsRequest) -> bool:
    """A cursor names no partition below 0, and one of the topics that are asked for (DescribeTopicPartitionsRequestHandler)."""
    cursor = request.cursor
    if cursor is None:
        return True
    return cursor.partition_index >= 0 and (not request.topics or any(t.name == cursor.topic_name for t in request.topics))


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = Code.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(code, name, NO_UUID, topic_authorized_operations=TOPIC_OPERATIONS)


def _describe(node_id: int, topic: Topic, begin: int, end: int) -> DescribeTopicPartitionsResponseTopic:
    node = [node_id]
    partitions = [
        DescribeTopicPartitionsResponsePartition(0, i, node_id, topic.leader_epochs[i], node, node, [], [], [])
        for i in range(begin, end)
    ]
    return DescribeTopicPartitionsResponseTopic(0, topic.name, topic.topic_id, topic.is_internal, partitions, TOPIC_OPERATIONS)


def failed(request: DescribeTopicPartitionsRequest, version: int, code: Code) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(0, [DescribeTopicPartitionsResponseTopic(code, t.name) for t in request.topics], None)


API = Declaration(75, handle, failed, is_bulky=True)
