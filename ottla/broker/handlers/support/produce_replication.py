"""The part of Produce with acks=all that waits until all in-sync replicas have the batches (DelayedProduce)."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.current_leaders import with_produce_endpoints
from ottla.broker.handlers.support.produce_partition import IDS_FROM
from ottla.broker.loop.env import Timer, Timers
from ottla.broker.loop.pending_response import Later
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.coordinator.replication.leader import ACKS_ALL
from ottla.protocol.errors import Code
from ottla.protocol.messages.produce import LeaderIdAndEpoch, PartitionProduceResponse, ProduceRequest, ProduceResponse

Answer = ProduceResponse | Later | None


class Ports(Protocol):
    partitions: Partitions
    cluster: ClusterCommands
    timers: Timers
    barrier: Barrier
    live_config: LiveConfig

    def advertised(self, listener: str) -> tuple[str, int]: ...


def when_replicated(
    ports: Ports, context: RequestContext, request: ProduceRequest, response: ProduceResponse, leaderships_lost: int | None
) -> Answer:
    """The response to a request whose batches are appended, pending until the high watermark has passed all of them.

    ``leaderships_lost`` is the barrier's counter before the first append; None if no other work has run since.
    """
    if request.acks != ACKS_ALL:
        return with_produce_endpoints(ports, context.listener, response)
    waiting = ReplicationWait(ports, context, response)
    for topic in response.responses:
        name = topic.name
        if context.version >= IDS_FROM:
            known = ports.cluster.state.topics_by_id.get(topic.topic_id)
            name = "" if known is None else known.name
        for answer in topic.partition_responses:
            partition = ports.partitions.known(name, answer.index) if answer.error_code == Code.NONE else None
            if partition is None:
                continue
            if partition.was_lost_since(ports.barrier.leaderships_lost if leaderships_lost is None else leaderships_lost):
                _refuse(partition, answer)
            elif not partition.leader.is_sole:
                waiting.add(partition, answer)
    return waiting.begin(request.timeout_ms)


def _refuse(partition: Partition, answer: PartitionProduceResponse) -> None:
    """Report that another broker was elected, which may not have the batch, even if this broker leads again."""
    answer.error_code = Code.NOT_LEADER_OR_FOLLOWER
    answer.current_leader = LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.log.leader_epoch)


class ReplicationWait:
    """One parked request. The result of each batch depends only on its own partition."""

    def __init__(self, ports: Ports, context: RequestContext, response: ProduceResponse) -> None:
        self._ports = ports
        self._context = context
        self._response = response
        self._waiting: dict[int, PartitionProduceResponse] = {}
        self._later: Later | None = None
        self._timer: Timer | None = None

    def add(self, partition: Partition, answer: PartitionProduceResponse) -> None:
        """Wait until a batch is committed, and set the error code in ``answer``.

        A retried batch may be before the log end; the wait is for the log end nevertheless.
        """
        number, end_offset = len(self._waiting), partition.log.log_end_offset
        self._waiting[number] = answer

        def decided(is_committed: bool) -> None:
            if self._waiting.pop(number, None) is None:
                return
            if not is_committed or not partition.is_led:
                _refuse(partition, answer)
            else:
                code = partition.leader.answer_to(ACKS_ALL, end_offset, partition.log.high_watermark)
                assert code is not None, f"{partition.log.name}: {end_offset} is not committed"
                answer.error_code = code
            if not self._waiting and self._later is not None:
                self._finish()

        self._ports.barrier.answer_after(partition.log, end_offset, decided)

    def begin(self, timeout_ms: int) -> Answer:
        """The response, or a `Later` if a batch is not committed yet."""
        if not self._waiting:
            return self._answer()
        self._later = Later(on_abandoned=self._stop)
        self._timer = self._ports.timers.call_later(max(0, timeout_ms), self._timed_out)
        return self._later

    def _timed_out(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.error_code = Code.REQUEST_TIMED_OUT
        self._finish()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self) -> None:
        self._stop()
        assert self._later is not None
        self._later.resolve(self._answer())

    def _answer(self) -> ProduceResponse:
        return with_produce_endpoints(self._ports, self._context.listener, self._response)
