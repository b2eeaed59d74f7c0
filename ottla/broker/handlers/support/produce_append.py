"""Appends the batches of a Produce request to their partitions, and waits for their replication (ReplicaManager.appendRecords).

The request is checked as a whole, and its partitions are added to the transaction together. Then each batch is checked
(`checked_batch`), verified with the transaction coordinator if it is transactional (`batch_verification`), and appended. A refused
batch gets an error in the response, and does not prevent the append of the request's other batches.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from ottla.broker.apis.api import RequestContext
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support import batch_verification, brokers, checked_batch
from ottla.broker.handlers.support.batch_verification import BatchVerification
from ottla.broker.handlers.support.checked_batch import CheckedBatch, RefusedBatch, check_batch, is_current
from ottla.broker.handlers.support.current_leaders import with_leader_addresses_for_produce
from ottla.broker.handlers.support.produce_refusals import has_one_batch, refused_partition, whole_refusal
from ottla.broker.handlers.support.refused_batch import report_refused
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.loop.env import Timers
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.partitions import Partition
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

PARTITION_WORK = 15
WORK_BYTES_SHIFT = 8
"""Estimated time to handle a partition, in units of 2 us: `PARTITION_WORK`, and 1 per 256 bytes of batch and inflated payload."""


class Ports(checked_batch.Ports, batch_verification.Ports, brokers.Ports, Protocol):
    live_config: LiveConfig
    timers: Timers
    barrier: Barrier
    transaction_listener: TransactionListener | None


class _AppendedBatch(NamedTuple):
    """A batch for which a request with acks=all waits until all in-sync replicas have it, and the batch's result.

    The result gets an error afterwards if the wait fails.
    """

    appended: AppendedTo
    result: PartitionProduceResponse


class _RequestState(msgspec.Struct, kw_only=True):
    """The state of one request, which its batches share."""

    ports: Ports
    context: RequestContext
    verifier: BatchVerification | None
    """Verifies transactional batches; None for a request without a transactional id."""
    acks: int
    allowance: Allowance
    """Limits the inflated bytes of the request."""
    unreplicated: list[_AppendedBatch] = []


async def append_batches(ports: Ports, request: ProduceRequest, context: RequestContext) -> ProduceResponse:
    """Append the batches of a request. With acks=all, wait until all in-sync replicas have them, at most the request's timeout.

    The response also has the addresses of new leaders of partitions that this broker does not lead (KIP-951).
    """
    leaderships_lost = ports.barrier.leaderships_lost
    verifier = None
    if request.transactional_id is not None:
        verifier = BatchVerification(ports=ports, context=context, transactional_id=request.transactional_id)
    state = _RequestState(
        ports=ports,
        context=context,
        verifier=verifier,
        acks=request.acks,
        allowance=Allowance(ports.live_config.settings.ottla_request_inflated_max_bytes),
    )
    responses = await _append_all(state, request)
    if state.unreplicated:
        await _wait_for_replicas(ports, state.unreplicated, leaderships_lost, request.timeout_ms)
    return with_leader_addresses_for_produce(ports, context.listener, ProduceResponse(responses))


async def _wait_for_replicas(ports: Ports, batches: list[_AppendedBatch], leaderships_lost: int, timeout_ms: int) -> None:
    """Wait until all in-sync replicas have the batches. The result of a batch gets an error code if the batch may be lost, or if
    its replicas do not have it after ``timeout_ms``.

    ``leaderships_lost`` is the value of `Barrier.leaderships_lost` before the first append. If another broker has become leader of
    a batch's partition since then, even for a short time, the batch may be lost.
    """
    codes = await replicated(ports.barrier, ports.timers, [batch.appended for batch in batches], leaderships_lost, timeout_ms)
    for ((partition, _), result), code in zip(batches, codes, strict=True):
        result.error_code = code
        if code is Code.NOT_LEADER_OR_FOLLOWER:
            result.current_leader = LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.log.leader_epoch)


async def _append_all(state: _RequestState, request: ProduceRequest) -> list[TopicProduceResponse]:
    pace, allowance, work = Pace(), state.allowance, 0
    refused = await whole_refusal(state.ports, state.context, request, pace)
    # `BatchVerification.verify` adds the partition of a single batch.
    if state.verifier is not None and refused is Code.NONE and not has_one_batch(request):
        await state.verifier.add_together(request, pace)
    responses = []
    for topic in request.topic_data:
        partitions = topic.partition_data
        if len(partitions) > 1:
            partitions = await _last_of_each_partition(partitions, pace)
        results: list[PartitionProduceResponse] = []
        for data in partitions:
            # Before each partition, count the work of the previous partition, so that a request with one batch has no pause and
            # is not measured.
            if work and pace.spend(work):
                await next_turn()
            left_before_bytes = allowance.left_bytes
            if refused is not Code.NONE:
                results.append(PartitionProduceResponse(index=data.index, error_code=refused, base_offset=-1))
            else:
                results.append(await _append_one(state, topic, data))
            inflated_bytes = left_before_bytes - allowance.left_bytes
            work = PARTITION_WORK + ((len(data.records or b"") + inflated_bytes) >> WORK_BYTES_SHIFT)
        if results:
            responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results))
    return responses


async def _last_of_each_partition(partitions: list[PartitionProduceData], pace: Pace) -> list[PartitionProduceData]:
    """Of the batches for the same partition only the last, because Kafka appends no other."""
    last: dict[int, PartitionProduceData] = {}
    for data in partitions:
        last[data.index] = data
        if pace.spend(1):
            await next_turn()
    return list(last.values())


async def _append_one(state: _RequestState, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
    """Check, verify and append one batch; returns its result.

    No other work runs between the end of the verification and the append. If the partition or its configs have changed during the
    verification, the batch is checked again.
    """
    ports, context, verifier = state.ports, state.context, state.verifier
    left_before_bytes = state.allowance.left_bytes
    while True:
        # `check_batch` also finds the partition and checks that the client may write to the topic.
        checked = await check_batch(ports, context, topic, data, state.allowance)
        if isinstance(checked, RefusedBatch):
            error = checked.error
            if verifier is not None:
                error = await verifier.verify_refused(data.records, checked)
            return _refused(state, data, checked.partition, error)
        try:
            if verifier is not None and checked.is_in_transaction:
                others_ran = await verifier.verify(checked.partition, checked.header)
                if others_ran and not is_current(ports, context, topic, data.index, checked):
                    # Restore the allowance, because the batch will be inflated again.
                    state.allowance.left_bytes = left_before_bytes
                    continue
            return _append(state, checked)
        except KafkaError as error:
            return _refused(state, data, checked.partition, error)


def _refused(
    state: _RequestState, data: PartitionProduceData, partition: Partition | None, error: KafkaError
) -> PartitionProduceResponse:
    listener, verifier = state.ports.transaction_listener, state.verifier
    if listener is not None and verifier is not None and verifier.transactional_id:
        report_refused(listener, state.ports.clock, state.context, verifier.transactional_id, data, partition, error.code)
    return refused_partition(data.index, error, partition)


def _append(state: _RequestState, checked: CheckedBatch) -> PartitionProduceResponse:
    partition = checked.partition
    implicit_add = state.verifier is not None and state.verifier.implicit_add
    appended = partition.append(checked.batch, checked.header, implicit_add=implicit_add, acks=state.acks)
    result = PartitionProduceResponse(
        index=partition.log.partition,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )
    if state.acks == ACKS_ALL and not state.ports.cluster.is_alone:
        state.unreplicated.append(_AppendedBatch(AppendedTo(partition, appended.last_offset + 1), result))
    return result
