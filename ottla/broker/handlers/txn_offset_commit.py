"""TxnOffsetCommit, versions 0 to 6 (KIP-98): stores a group's offsets, which are pending until the transaction ends.

- 2 (KIP-320): leader epochs are stored with offsets.
- 3 (KIP-447): the request has member, generation and instance, which fence a producer whose consumer lost its partitions.
- 4 (KIP-890): adds the error TRANSACTION_ABORTABLE, in older versions INVALID_TXN_STATE.
- 5 (KIP-890): the commit itself adds the partition of ``__consumer_offsets`` to the transaction, without AddOffsetsToTxn.
- 6 (KIP-1319): topics by id; an unknown group gets GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.verification import OFFSET_COMMIT_CODES, Verification, join_transaction
from ottla.broker.handlers.offset_commit import METADATA_CHARACTERS, PARTITION_WORK
from ottla.broker.handlers.support.common import committed_topic, refused_first
from ottla.broker.handlers.support.each import made
from ottla.broker.loop.env import Clock
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.steps import Pace, Pause, next_turn
from ottla.protocol.topic_partition import TopicPartition

IDS_FROM = 6
IMPLICIT_ADD_FROM = 5
ABORTABLE_FROM = 4
Topics = dict[Hashable, TxnOffsetCommitResponseTopic]
Answers = list[tuple[TopicPartition, TxnOffsetCommitResponsePartition]]


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    groups: Groups
    cluster: ClusterCommands
    clock: Clock
    verification: Verification


async def handle(ports: Ports, request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    """Commit many offsets in several batches, as OffsetCommit does. The offsets become valid together, when the transaction
    commits."""
    now_ms = ports.clock.steady_ms()
    refused: Topics = {}
    asked: Topics = {}
    waiting: dict[TopicPartition, CommittedOffset] = {}
    answers: Answers = []
    pace = Pace()
    for topic in request.topics:
        name = committed_topic(ports, context, topic, ids_from=IDS_FROM)
        if name not in ports.cluster.state.topics:
            # As in Kafka, a topic that does not exist is in the response even if the request names no partitions of it.
            _answer_of(refused, topic)
        for p in topic.partitions:
            answer = TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=Code.UNKNOWN_TOPIC_OR_PARTITION)
            if isinstance(name, Code):
                answer.error_code = name
                _answer_of(refused, topic).append(answer)
            elif not ports.partitions.exists(name, p.partition_index):
                _answer_of(refused, topic).append(answer)
            else:
                _answer_of(asked, topic).append(answer)
                where = (name, p.partition_index)
                answers.append((where, answer))
                waiting[where] = CommittedOffset(p.committed_offset, p.committed_leader_epoch, p.committed_metadata or "", now_ms)
            if pace.spend(PARTITION_WORK + len(p.committed_metadata or "") // METADATA_CHARACTERS):
                await _commit(ports, context, request, waiting, answers)
                waiting, answers = {}, []
                await next_turn()
        if pace.spend(1):
            await next_turn()
    await _commit(ports, context, request, waiting, answers)
    return await made(lambda: TxnOffsetCommitResponse(topics=refused_first(refused, asked)), len(request.topics))


def _answer_of(topics: Topics, asked: TxnOffsetCommitRequestTopic) -> list[TxnOffsetCommitResponsePartition]:
    key = (asked.name, asked.topic_id)
    if key not in topics:
        topics[key] = TxnOffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=[])
    return topics[key].partitions


async def _commit(
    ports: Ports,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    offsets: dict[TopicPartition, CommittedOffset],
    answers: Answers,
) -> None:
    """Verify the transaction, check member and generation, and append the offsets. Sets the error codes of ``answers``.

    No other work runs between the checks and the append. After a wait for the transaction coordinator, the verification is
    repeated.
    """
    if not offsets:
        return
    codes: dict[TopicPartition, Code] = {}
    try:
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        if OFFSETS_TOPIC not in ports.cluster.state.topics:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
        shard, runtime = ports.groups.shard(request.group_id)
        has_waited = False
        partitions = {where: ports.partitions.find(*where) for where in offsets}
        while (pause := _verify(ports, context, request, shard.partition, has_waited=has_waited)) is not None:
            await pause
            has_waited = True
            shard, runtime = ports.groups.shard(request.group_id)
        if has_waited:
            # During the wait, a topic may have been deleted and recreated. The new topic must not get offsets of the deleted topic.
            gone = {where for where, partition in partitions.items() if ports.partitions.find(*where) is not partition}
            codes = dict.fromkeys(gone, Code.UNKNOWN_TOPIC_OR_PARTITION)
            offsets = {where: offset for where, offset in offsets.items() if where not in gone}
        result = shard.commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            offsets,
            ports.clock.steady_ms(),
            transactional=True,
            has_new_error_codes=context.version >= IDS_FROM,
        )
        committed = runtime.execute_transactional(result, request.producer_id, request.producer_epoch)
        codes |= committed
    except KafkaError as error:
        codes |= dict.fromkeys(offsets, _code(error.code, context.version))
    for where, answer in answers:
        answer.error_code = codes[where]


def _verify(
    ports: Ports, context: RequestContext, request: TxnOffsetCommitRequest, index: int, *, has_waited: bool
) -> Pause[None] | None:
    """Verify the transaction. Returns None if the offsets may be appended now, else a `Pause` that ends with the coordinator's
    response.

    Raises `KafkaError`.
    """
    entry = ports.partitions.get(OFFSETS_TOPIC, index).log.producers.entries.get(request.producer_id)
    if entry is not None:
        if request.producer_epoch < entry.epoch:
            raise KafkaError(Code.INVALID_PRODUCER_EPOCH)
        if entry.txn_first_offset >= 0 and entry.epoch == request.producer_epoch:
            return None
    identity = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    implicit_add = context.version >= IMPLICIT_ADD_FROM
    return join_transaction(
        ports.verification,
        request.transactional_id,
        identity,
        (OFFSETS_TOPIC, index),
        implicit_add=implicit_add,
        has_waited=has_waited,
    )


def _code(code: Code, version: int) -> Code:
    if code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return Code.INVALID_TXN_STATE
    return OFFSET_COMMIT_CODES.get(code, code)


def failed(request: TxnOffsetCommitRequest, version: int, code: Code) -> TxnOffsetCommitResponse:
    topics = [
        TxnOffsetCommitResponseTopic(
            name=t.name,
            topic_id=t.topic_id,
            partitions=[TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code) for p in t.partitions],
        )
        for t in request.topics
    ]
    return TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics)


API = Declaration(
    key=28,
    handle=handle,
    failed=failed,
    authorisation=authorisations("WRITE TRANSACTIONAL_ID transactional_id, READ GROUP group_id, READ TOPIC"),
)
