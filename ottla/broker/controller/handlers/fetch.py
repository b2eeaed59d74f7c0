"""Fetch, versions 4 to 18 (KIP-595): brokers fetch the cluster's metadata log as observers. No other log can be fetched.

- 13 (KIP-516): the request has topic ids; older versions have none, and are refused.
- 17 (KIP-853): the response has the controller's address.
- 18 (KIP-1166): the request has the broker's high watermark; if the controller's is higher, the response is sent immediately.

A fetch waits until there is a new batch. If the request does not have the current leader epoch, the response has an error and the
current epoch. If a broker has fetched records that the controller has since lost, the response has the offset at which their logs
diverge (KafkaRaftClient.handleFetchRequest).
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.services import ControllerDeclaration
from ottla.broker.handlers.support.parked_fetch import read_when_woken
from ottla.broker.limits.memory_budgets import ResponseBudget
from ottla.broker.loop.env import Clock, Timers
from ottla.broker.loop.wakeup import Wakeup
from ottla.broker.membership.metadata_fetch import METADATA_TOPIC_ID
from ottla.broker.partitions.partitions import leader_epoch_end
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

MAX_BYTES = 8 << 20
"""Upper bound, in bytes, on the records in one response."""


class Ports(Protocol):
    controller: ControllerMetadata
    cluster_id: str
    clock: Clock
    timers: Timers
    response_budget: ResponseBudget

    def advertised(self, listener: str) -> tuple[str, int]: ...


async def handle(ports: Ports, request: FetchRequest, context: RequestContext) -> FetchResponse:
    if request.cluster_id is not None and request.cluster_id != ports.cluster_id:
        raise KafkaError(Code.INCONSISTENT_CLUSTER_ID)
    if len(request.topics) != 1 or request.topics[0].topic_id != METADATA_TOPIC_ID or len(request.topics[0].partitions) != 1:
        raise KafkaError(Code.INVALID_REQUEST)
    fetch = MetadataLogFetch(ports, request, context.listener)
    answer = fetch.answer()
    if request.max_wait_ms <= 0 or fetch.is_news(answer):
        return fetch.response(answer)
    return await read_when_woken(ports, fetch, Wakeup(ports.timers, request.max_wait_ms))


class MetadataLogFetch:
    """One fetch of the metadata log. Implements `broker.handlers.support.parked_fetch.Fetching`."""

    def __init__(self, ports: Ports, request: FetchRequest, listener: str) -> None:
        self._controller = ports.controller
        self._asked: FetchPartition = request.topics[0].partitions[0]
        host, port = ports.advertised(listener)
        self._node = NodeEndpoint(node_id=ports.controller.node_id, host=host, port=port)
        self._max_bytes = max(0, min(MAX_BYTES, request.max_bytes, self._asked.partition_max_bytes))
        self._max_wait_ms = request.max_wait_ms
        self._clock = ports.clock
        state = request.replica_state
        self._replica_id = request.replica_id if state is None else state.replica_id

    def answer(self) -> PartitionData:
        asked, controller = self._asked, self._controller
        if asked.partition != 0:
            return self._refused(Code.UNKNOWN_TOPIC_OR_PARTITION)
        if min(asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch, self._max_wait_ms) < 0:
            return self._refused(Code.INVALID_REQUEST)
        if asked.current_leader_epoch != controller.leader_epoch:
            is_old = asked.current_leader_epoch < controller.leader_epoch
            return self._refused(Code.FENCED_LEADER_EPOCH if is_old else Code.UNKNOWN_LEADER_EPOCH)
        if self._replica_id >= 0:
            controller.log.fetched(self._replica_id, asked.replica_directory_id, asked.fetch_offset, self._clock.now_ms())
        data = self._data()
        diverging = self._diverging()
        if diverging is not None:
            data.diverging_epoch = diverging
            return data
        try:
            data.records = controller.log.partition.read(
                asked.fetch_offset, self._max_bytes, committed=False, min_one_batch=True
            ).data
        except KafkaError as error:
            return self._refused(error.code)
        return data

    def _diverging(self) -> EpochEndOffset | None:
        """If the broker's log diverges from the controller's, return the last common epoch and its end offset, else None
        (RaftLog.validateOffsetAndEpoch)."""
        asked, partition_log = self._asked, self._controller.log.partition.log
        if asked.fetch_offset == asked.last_fetched_epoch == 0:
            return None
        end = leader_epoch_end(self._controller.log.partition, asked.last_fetched_epoch)
        if end.epoch < 0:
            return EpochEndOffset(epoch=partition_log.epochs.latest, end_offset=partition_log.log_end_offset)
        if end.epoch != asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
            return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
        return None

    def _data(self) -> PartitionData:
        partition_log = self._controller.log.partition.log
        return PartitionData(
            partition_index=0,
            error_code=0,
            high_watermark=partition_log.high_watermark,
            last_stable_offset=partition_log.high_watermark,
            log_start_offset=partition_log.log_start_offset,
            current_leader=LeaderIdAndEpoch(leader_id=self._controller.node_id, leader_epoch=self._controller.leader_epoch),
            aborted_transactions=None,
            records=b"",
        )

    def _refused(self, code: Code) -> PartitionData:
        data = self._data()
        data.error_code = code
        return data

    def is_news(self, answer: PartitionData) -> bool:
        """Whether the response must be sent immediately, because it has records, an error, or a higher high watermark."""
        return bool(
            answer.error_code
            or answer.records
            or answer.diverging_epoch is not None
            or answer.high_watermark > self._asked.high_watermark
        )

    def response(self, answer: PartitionData) -> FetchResponse:
        return FetchResponse(
            throttle_time_ms=0,
            error_code=0,
            responses=[FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[answer])],
            node_endpoints=[self._node],
        )

    def listen(self, wakeup: Wakeup) -> None:
        self._controller.log.partition.waiters[wakeup.wake] = None

    def ignore(self, wakeup: Wakeup) -> None:
        self._controller.log.partition.waiters.pop(wakeup.wake, None)

    def may_have_enough(self) -> bool:
        return True

    async def read(self, *, is_last: bool) -> FetchResponse | None:
        answer = self.answer()
        return self.response(answer) if is_last or self.is_news(answer) else None


def failed(request: FetchRequest, version: int, code: Code) -> FetchResponse:
    return FetchResponse(throttle_time_ms=0, error_code=code, responses=[])


API = ControllerDeclaration(
    key=1, handle=handle, failed=failed, authorisation=authorisations("CLUSTER_ACTION CLUSTER"), is_bulky=True
)
