"""TxnOffsetCommit, versions 0 to 5 (KIP-98): a group's positions that are pending until the transaction ends.

- 2 (KIP-320): leader epochs are kept with offsets.
- 3 (KIP-447): member, generation and instance, which fence a producer whose consumer has lost its partitions.
- 4 (KIP-890): TRANSACTION_ABORTABLE; older clients are told INVALID_TXN_STATE.
- 5 (KIP-890): the partition of ``__consumer_offsets`` is added to the transaction by the commit itself, without AddOffsetsToTxn.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from ottla.broker.api import Declaration, RequestContext
from ottla.broker.authorisation import authorisations
from ottla.broker.cluster import Cluster
from ottla.broker.env import Clock
from ottla.broker.groups import Groups
from ottla.broker.handlers.common import refused_first
from ottla.broker.handlers.each import Handled, made
from ottla.broker.handlers.offset_commit import METADATA_CHARACTERS, PARTITION_WORK
from ottla.broker.partitions import Partitions
from ottla.broker.verification import OFFSET_COMMIT_CODES, Verification, join_transaction
from ottla.coordinator.cluster import OFFSETS_TOPIC
from ottla.coordinator.group.offsets import TopicPartition
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.storage.steps import Pace, Steps, begun

IMPLICIT_ADD_FROM = 5
ABORTABLE_FROM = 4
Topics = dict[Hashable, TxnOffsetCommitResponseTopic]


class Ports(Protocol):
    partitions: Partitions
    groups: Groups
    cluster: Cluster
    clock: Clock
    verification: Verification


def handle(ports: Ports, request: TxnOffsetCommitRequest, context: RequestContext) -> Handled[TxnOffsetCommitResponse]:
    return begun(_commit_all(ports, context, request))


def _commit_all(ports: Ports, context: RequestContext, request: TxnOffsetCommitRequest) -> Steps[TxnOffsetCommitResponse]:
    """Many in batches that each stand for themselves, as OffsetCommit has them: the transaction makes one of them."""
    now_ms = ports.clock.steady_ms()
    refused: Topics = {}
    asked: Topics = {}
    codes: dict[TopicPartition, Code] = {}
    offsets: dict[TopicPartition, CommittedOffset] = {}
    pace = Pace()
    for topic in request.topics:
        if topic.name not in ports.cluster.state.topics:
            # Answered also where no partition is named, as by Kafka.
            _answer_of(refused, topic.name)
        for p in topic.partitions:
            if ports.partitions.find(topic.name, p.partition_index) is None:
                answer = TxnOffsetCommitResponsePartition(
                    partition_index=p.partition_index, error_code=Code.UNKNOWN_TOPIC_OR_PARTITION
                )
                _answer_of(refused, topic.name).append(answer)
            else:
                _answer_of(asked, topic.name).append(TxnOffsetCommitResponsePartition(p.partition_index))
                offsets[topic.name, p.partition_index] = CommittedOffset(
                    p.committed_offset, p.committed_leader_epoch, p.committed_metadata or "", now_ms
                )
            if pace.is_over(PARTITION_WORK + len(p.committed_metadata or "") // METADATA_CHARACTERS):
                codes |= _codes(ports, context, request, offsets, now_ms)
                offsets = {}
                yield None
        if pace.is_over(1):
            yield None
    codes |= _codes(ports, context, request, offsets, now_ms)
    return (yield from made(lambda: _response(refused, asked, codes), len(codes) + len(request.topics)))


def _answer_of(topics: Topics, name: str) -> list[TxnOffsetCommitResponsePartition]:
    """The partitions of a topic's answer, which comes into being when it is first asked for."""
    if name not in topics:
        topics[name] = TxnOffsetCommitResponseTopic(name=name, partitions=[])
    return topics[name].partitions


def _codes(
    ports: Ports,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    offsets: dict[TopicPartition, CommittedOffset],
    now_ms: int,
) -> dict[TopicPartition, Code]:
    try:
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        return _commit(ports, context, request, offsets, now_ms) if offsets else {}
    except KafkaError as error:
        return dict.fromkeys(offsets, _code(error.code, context.version))


def _commit(
    ports: Ports,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    offsets: dict[TopicPartition, CommittedOffset],
    now_ms: int,
) -> dict[TopicPartition, Code]:
    """Verification, member and generation, append: one synchronous stretch."""
    shard, runtime = ports.groups.shard(request.group_id)
    _verify(ports, context, request, shard.partition)
    result = shard.commit(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        offsets,
        now_ms,
        transactional=True,
    )
    return runtime.execute_transactional(result, request.producer_id, request.producer_epoch)


def _verify(ports: Ports, context: RequestContext, request: TxnOffsetCommitRequest, index: int) -> None:
    entry = ports.partitions.get(OFFSETS_TOPIC, index).log.producers.entries.get(request.producer_id)
    if entry is not None:
        if request.producer_epoch < entry.epoch:
            raise KafkaError(Code.INVALID_PRODUCER_EPOCH)
        if entry.txn_first_offset >= 0 and entry.epoch == request.producer_epoch:
            return
    identity = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    implicit_add = context.version >= IMPLICIT_ADD_FROM
    join_transaction(ports.verification, request.transactional_id, identity, (OFFSETS_TOPIC, index), implicit_add=implicit_add)


def _code(code: Code, version: int) -> Code:
    if code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return Code.INVALID_TXN_STATE
    return OFFSET_COMMIT_CODES.get(code, code)


def _response(refused: Topics, asked: Topics, codes: dict[TopicPartition, Code]) -> TxnOffsetCommitResponse:
    for topic in asked.values():
        for part in topic.partitions:
            part.error_code = codes[topic.name, part.partition_index]
    return TxnOffsetCommitResponse(throttle_time_ms=0, topics=refused_first(refused, asked))


def failed(request: TxnOffsetCommitRequest, version: int, code: Code) -> TxnOffsetCommitResponse:
    topics = [
        TxnOffsetCommitResponseTopic(
            name=t.name,
            partitions=[TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code) for p in t.partitions],
        )
        for t in request.topics
    ]
    return TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics)


API = Declaration(
    key=28,
    handle=handle,
    failed=failed,
    authorisation=authorisations("WRITE TRANSACTIONAL_ID, READ GROUP, READ TOPIC"),
)
