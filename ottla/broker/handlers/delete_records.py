"""DeleteRecords, versions 0 to 2 (KIP-107): raises a partition's log start offset; the offset -1 means the high watermark.

The response waits until the live followers have deleted the records as well, at most the request's timeout (DelayedDeleteRecords).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Protocol

import msgspec

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support.each import each
from ottla.broker.loop.env import Timers
from ottla.broker.loop.wakeup import Wakeup
from ottla.broker.partitions.housekeeping import Housekeeping
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.security.acl.codes import AclOperation, ResourceType

TO_THE_END = -1


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    housekeeping: Housekeeping
    timers: Timers


async def handle(ports: Ports, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    def answer(results: Iterator[DeleteRecordsPartitionResult]) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            throttle_time_ms=0,
            topics=[
                DeleteRecordsTopicResult(name=t.name, partitions=list(islice(results, len(t.partitions)))) for t in request.topics
            ],
        )

    deleting: list[Deleting] = []
    asked = ((t.name, p) for t in request.topics for p in t.partitions)
    response = await each(asked, lambda a: _delete(ports, context, deleting, *a), answer, work=100, groups=len(request.topics))
    await _followers_deleted(ports.timers, deleting, request.timeout_ms)
    return response


class Deleting(msgspec.Struct, kw_only=True):
    """A partition whose followers are deleting records up to an offset, and its result in the response."""

    partition: Partition
    offset: int
    result: DeleteRecordsPartitionResult
    leaderships_lost: int
    """Value of the counter `Barrier.leaderships_lost` when the leader deleted the records."""

    @staticmethod
    def of(partition: Partition, offset: int, result: DeleteRecordsPartitionResult) -> Deleting:
        return Deleting(partition=partition, offset=offset, result=result, leaderships_lost=partition.barrier.leaderships_lost)

    def is_over(self) -> bool:
        """Update the result. Returns whether the low watermark has reached ``offset``, or this broker has lost the leadership."""
        partition, result = self.partition, self.result
        if partition.was_lost_since(self.leaderships_lost):
            result.low_watermark, result.error_code = -1, Code.NOT_LEADER_OR_FOLLOWER
            return True
        result.low_watermark = partition.low_watermark
        return result.low_watermark >= self.offset


async def _followers_deleted(timers: Timers, deleting: list[Deleting], timeout_ms: int) -> None:
    """Park the request until the live followers have deleted the records, or until its timeout. Updates the results."""
    if not (left := [one for one in deleting if not one.is_over()]):
        return
    wakeup = Wakeup(timers, timeout_ms)
    try:
        while left and not wakeup.is_over:
            for one in left:
                one.partition.waiters[wakeup.wake] = None
            await wakeup.wait()
            left = [one for one in left if not one.is_over()]
        for one in left:
            one.result.error_code = Code.REQUEST_TIMED_OUT
    finally:
        wakeup.stop()
        for one in deleting:
            one.partition.waiters.pop(wakeup.wake, None)


def _delete(
    ports: Ports, context: RequestContext, deleting: list[Deleting], topic: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        if not ports.authorizer.allows(context, AclOperation.DELETE, ResourceType.TOPIC, topic):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION)
        partition = ports.partitions.get(topic, asked.partition_index)
        log = partition.log
        if log.config.is_compacted and not log.config.is_deleted:
            raise KafkaError(Code.POLICY_VIOLATION)
        offset = log.high_watermark if asked.offset == TO_THE_END else asked.offset
        if offset < 0 or offset > log.high_watermark:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        ports.housekeeping.delete_records(log, offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1, error_code=error.code)
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=log.log_start_offset)
    if not partition.leader.is_sole:
        deleting.append(Deleting.of(partition, offset, result))
    return result


def failed(request: DeleteRecordsRequest, version: int, code: Code) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            DeleteRecordsTopicResult(
                name=t.name,
                partitions=[
                    DeleteRecordsPartitionResult(partition_index=p.partition_index, low_watermark=-1, error_code=code)
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ],
    )


API = Declaration(
    key=21,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DELETE TOPIC", by_handler=True),
)
