"""DescribeProducers, version 0 (KIP-664): who writes to a partition, and since where a transaction is open."""

from __future__ import annotations

from ottla.broker.api import Context, Declaration
from ottla.broker.authorisation import authorisations
from ottla.broker.handlers.each import Handled
from ottla.coordinator.cluster import check_topic_name
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.storage.steps import Pace, Steps, begun

PARTITION_WORK = 3
"""What a partition takes beside its producers, in the units of `storage.steps`."""

_UNKNOWN = "This server does not host this topic-partition."
"""What Kafka says of a topic that it does not know; of a partition it says nothing."""


def handle(context: Context, request: DescribeProducersRequest) -> Handled[DescribeProducersResponse]:
    return begun(_in_steps(context, request))


def _in_steps(context: Context, request: DescribeProducersRequest) -> Steps[DescribeProducersResponse]:
    topics, pace = [], Pace(begun=True)
    for topic in request.topics:
        answers = []
        for index in topic.partition_indexes:
            if pace.is_over(PARTITION_WORK):
                yield None
            answers.append((yield from _describe(context, topic.name, index, pace)))
        topics.append(TopicResponse(topic.name, answers))
        if pace.is_over(1):
            yield None
    return DescribeProducersResponse(0, topics)


def _describe(context: Context, topic: str, index: int, pace: Pace) -> Steps[PartitionResponse]:
    try:
        check_topic_name(topic)
        if topic not in context.broker.cluster.state.topics:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN)
        log = context.broker.partitions.get(topic, index).log
        log.check_online()
        entries = log.producers.entries
    except KafkaError as error:
        return PartitionResponse(index, error.code, error.message)
    producers = []
    for e in list(entries.values()):
        producers.append(
            ProducerState(e.producer_id, e.epoch, e.last_sequence, e.last_timestamp_ms, e.coordinator_epoch, e.txn_first_offset)
        )
        if pace.is_over(1):
            yield None
    return PartitionResponse(index, 0, None, producers)


def failed(request: DescribeProducersRequest, version: int, code: Code) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        0, [TopicResponse(t.name, [PartitionResponse(i, code) for i in t.partition_indexes]) for t in request.topics]
    )


API = Declaration(
    key=61,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ TOPIC"),
    is_bulky=True,
)
