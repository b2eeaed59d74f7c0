"""Produce, versions 3 to 13 (KIP-98): appends batches to partitions that this broker leads, also in transactions.

- 3: record batches have magic 2 with producer id, epoch and sequence; the request has the transactional id.
- 5 (KIP-107): the response has the log start offset.
- 7 (KIP-110): batches may be compressed with zstd, which older versions refuse.
- 8 (KIP-467): the response lists refused records with the reasons.
- 11 (KIP-890): adds the error TRANSACTION_ABORTABLE, in older versions INVALID_TXN_STATE.
- 12 (KIP-890): the partition is added to the transaction by its first batch, without AddPartitionsToTxn.
- 13 (KIP-516): topics by id.

ApiVersions also offers versions 0 to 2, for librdkafka, but as in Kafka requests of these versions are refused
(`registry.BROKER_APIS`). With acks=0 there is no response, and an error closes the connection. With acks=all the response waits for
the in-sync replicas.

Kafka authorises WRITE on each topic, and on the transactional id of a request with transactional batches.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from ottla.broker.apis.api import Declaration, RequestContext, RequestRefused, WaitsFor
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.coordinators.verification import Verification
from ottla.broker.handlers.support.batch_verification import IMPLICIT_ADD_FROM, BatchVerification
from ottla.broker.handlers.support.checked_batch import CheckedBatch, RefusedBatch, check_batch, is_current
from ottla.broker.handlers.support.current_leaders import with_produce_endpoints
from ottla.broker.handlers.support.produce_refusals import (
    has_transactional_records,
    is_one_acceptable_batch,
    refused_partition,
    whole_refusal,
)
from ottla.broker.handlers.support.refused_batch import report_refused
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.env import Clock, Timers
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.broker.partitions.replication_wait import AppendedTo, replicated
from ottla.coordinator.replication.leader import ACKS_ALL
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import Allowance
from ottla.protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

PARTITION_WORK = 15
WORK_BYTES_SHIFT = 8
"""Estimated time to handle a partition, in units of 2 us: `PARTITION_WORK`, and 1 per 256 bytes of batch and inflated payload."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    cluster: ClusterCommands
    live_config: LiveConfig
    clock: Clock
    timers: Timers
    barrier: Barrier
    counters: Counters
    inflating: InflatingMemory
    verification: Verification
    transaction_listener: TransactionListener | None

    def advertised(self, listener: str) -> tuple[str, int]: ...


class RequestState(msgspec.Struct, kw_only=True):
    """The state of one request, which its batches share."""

    ports: Ports
    context: RequestContext
    verification: BatchVerification | None
    """Verifies transactional batches; None for a request without a transactional id."""
    acks: int
    allowance: Allowance
    unreplicated: list[tuple[AppendedTo, PartitionProduceResponse]] = []
    """The batches, with their results, for which a request with acks=all waits until all in-sync replicas have them."""


async def handle(ports: Ports, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    verification = None
    if request.transactional_id is not None:
        verification = BatchVerification(ports=ports, context=context, transactional_id=request.transactional_id)
    state = RequestState(
        ports=ports,
        context=context,
        verification=verification,
        acks=request.acks,
        allowance=Allowance(ports.live_config.settings.ottla_request_inflated_max_bytes),
    )
    # If another broker becomes leader of a batch's partition from now on, even for a short time, the batch may be lost.
    leaderships_lost = ports.barrier.leaderships_lost
    if is_one_acceptable_batch(ports, context, request):
        topic = request.topic_data[0]
        results = [await _append_one(state, topic, topic.partition_data[0])]
        response = ProduceResponse([TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results)])
    else:
        response = await _append_all(state, request)
    if not request.acks:
        codes = {Code(result.error_code) for topic in response.responses for result in topic.partition_responses}
        _close_if_refused(codes - {Code.NONE})
        return None
    # A single broker has no replicas to wait for, and no other leader to name in the response.
    if ports.cluster.is_alone:
        return response
    if request.acks == ACKS_ALL:
        await _wait_for_replicas(state, leaderships_lost, request.timeout_ms)
    return with_produce_endpoints(ports, context.listener, response)


def _close_if_refused(codes: Collection[Code]) -> None:
    """Raise `RequestRefused` if a batch with acks=0 got an error: only the closed connection tells the producer about the error."""
    if codes:
        raise RequestRefused(f"a batch with acks=0 was refused with {', '.join(sorted(code.name for code in codes))}")


async def _append_all(state: RequestState, request: ProduceRequest) -> ProduceResponse:
    pace, allowance, work = Pace(), state.allowance, 0
    refused = await whole_refusal(state.ports, state.context, request, pace)
    if state.verification is not None and refused is Code.NONE:
        await state.verification.add_together(request, pace)
    responses = []
    for topic in request.topic_data:
        # If the request repeats a partition, only the last batch is appended.
        last: dict[int, PartitionProduceData] = {}
        for data in topic.partition_data:
            last[data.index] = data
            if pace.spend(1):
                await next_turn()
        results: list[PartitionProduceResponse] = []
        for index, data in last.items():
            # Before each partition, count the work of the previous partition, so that a request with one small batch has no pause.
            if pace.spend(work):
                await next_turn()
            left_bytes = allowance.left_bytes
            if refused is not Code.NONE:
                results.append(PartitionProduceResponse(index=index, error_code=refused, base_offset=-1))
            else:
                results.append(await _append_one(state, topic, data))
            work = PARTITION_WORK + (len(data.records or b"") + left_bytes - allowance.left_bytes >> WORK_BYTES_SHIFT)
        if results:
            responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results))
    return ProduceResponse(responses)


async def _wait_for_replicas(state: RequestState, leaderships_lost: int, timeout_ms: int) -> None:
    appended = [appended for appended, _ in state.unreplicated]
    codes = await replicated(state.ports.barrier, state.ports.timers, appended, leaderships_lost, timeout_ms)
    for ((partition, _), result), code in zip(state.unreplicated, codes, strict=True):
        result.error_code = code
        if code is Code.NOT_LEADER_OR_FOLLOWER:
            result.current_leader = LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.log.leader_epoch)


async def _append_one(state: RequestState, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
    """Check, verify and append one batch; returns its result.

    No other work runs between the end of the verification and the append. If the partition or its configs have changed during the
    verification, the batch is checked again.
    """
    ports, context, verification = state.ports, state.context, state.verification
    left_bytes = state.allowance.left_bytes
    while True:
        # `check_batch` also finds the partition and checks that the client may write to the topic.
        checked = await check_batch(ports, context, topic, data, state.allowance)
        if isinstance(checked, RefusedBatch):
            error = checked.error if verification is None else await verification.verify_refused(data.records, checked)
            return _refused(state, data, checked.partition, error)
        try:
            if verification is not None and checked.is_in_transaction:
                others_ran = await verification.verify(checked.partition, checked.header)
                if others_ran and not is_current(ports, context, topic, data.index, checked):
                    state.allowance.left_bytes = left_bytes
                    continue
            return _append(state, checked)
        except KafkaError as error:
            return _refused(state, data, checked.partition, error)


def _refused(
    state: RequestState, data: PartitionProduceData, partition: Partition | None, error: KafkaError
) -> PartitionProduceResponse:
    listener, verification = state.ports.transaction_listener, state.verification
    if verification is not None and verification.transactional_id and listener is not None:
        report_refused(listener, state.ports.clock, state.context, verification.transactional_id, data, partition, error.code)
    return refused_partition(data.index, error, partition)


def _append(state: RequestState, checked: CheckedBatch) -> PartitionProduceResponse:
    partition = checked.partition
    implicit_add = state.context.version >= IMPLICIT_ADD_FROM and state.verification is not None
    appended = partition.append(checked.batch, checked.header, implicit_add=implicit_add, acks=state.acks)
    result = PartitionProduceResponse(
        index=partition.log.partition,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )
    if state.acks == ACKS_ALL and not state.ports.cluster.is_alone:
        state.unreplicated.append((AppendedTo(partition, appended.last_offset + 1), result))
    return result


def failed(request: ProduceRequest, version: int, code: Code) -> ProduceResponse | None:
    if request.acks == 0:
        return None
    return ProduceResponse(
        [
            TopicProduceResponse(
                name=t.name,
                topic_id=t.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=p.index, error_code=code, base_offset=-1) for p in t.partition_data
                ],
            )
            for t in request.topic_data
        ]
    )


def _authorise(authorizer: RequestAuthorizer, request: ProduceRequest, context: RequestContext) -> None:
    if not has_transactional_records(request):
        return
    name = request.transactional_id
    if name is None or not authorizer.allows(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        if not request.acks:
            _close_if_refused([Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED])
        raise KafkaError(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


API = Declaration(
    key=0,
    handle=handle,
    failed=failed,
    authorisation=authorisations("WRITE TRANSACTIONAL_ID, WRITE TOPIC"),
    waits_for=WaitsFor.DURABILITY,
    authorise=_authorise,
    checks_itself=True,
)
