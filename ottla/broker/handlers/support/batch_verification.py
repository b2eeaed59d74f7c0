"""Verifies transactional batches of Produce with the transaction coordinator before their append (KIP-890)."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.verification import PRODUCE_CODES, Verification, join_transaction
from ottla.broker.handlers.support.checked_batch import RefusedBatch
from ottla.broker.handlers.support.produce_partition import BeforeTheLog, partition_of
from ottla.broker.loop.env import Clock
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader, transactional_header
from ottla.protocol.steps import Pace, Pause, next_turn
from ottla.protocol.topic_partition import TopicPartition

IMPLICIT_ADD_FROM = 12
"""The first version of Produce that adds a batch's partition to the transaction without AddPartitionsToTxn."""
ABORTABLE_FROM = 11
"""The first version of Produce with the error TRANSACTION_ABORTABLE."""


VERIFICATION_WORK = 2
"""Estimated time to check whether a partition needs verification, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    clock: Clock
    cluster: ClusterCommands
    partitions: Partitions
    verification: Verification


class BatchVerification(msgspec.Struct, kw_only=True):
    """Verifies the batches of one request with the coordinator of its transactional id.

    `add_together` sends all partitions of the request, so that one record of the coordinator adds them all. Directly before each
    append `verify` is called, because the transaction may have ended in the meantime.
    """

    ports: Ports
    context: RequestContext
    transactional_id: str
    has_waited: bool = False
    """Whether the request has waited for the coordinator. If so, its partitions were added durably (`Verification.join`)."""

    @property
    def implicit_add(self) -> bool:
        """Whether a batch adds its partition to the transaction, without AddPartitionsToTxn."""
        return self.context.version >= IMPLICIT_ADD_FROM

    async def add_together(self, request: ProduceRequest, pace: Pace) -> None:
        """Verify all partitions of the request with the coordinator (ReplicaManager.handleProduceAppend).

        As in Kafka, a partition is added if this broker has it and the batch's header is transactional. A batch whose records are
        refused afterwards leaves its partition in the transaction. `verify` later returns the result for each partition.
        """
        identity: ProducerIdAndEpoch | None = None
        partitions: dict[TopicPartition, None] = {}
        for topic in request.topic_data:
            for data in topic.partition_data:
                if pace.spend(VERIFICATION_WORK):
                    await next_turn()
                header = _verifiable_header(data.records)
                if header is None:
                    continue
                producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
                if identity is None:
                    identity = producer
                try:
                    partition = partition_of(self.ports, self.context, topic, data.index)
                    if producer == identity and not _is_open(partition, header):
                        partitions[partition.log.topic, partition.log.partition] = None
                except KafkaError:
                    # Skip the batch, because its append will raise this `KafkaError` again.
                    continue
        if identity is None or not partitions:
            return
        implicit_add = self.implicit_add
        joined: Pause[None] = Pause()
        verification = self.ports.verification
        verification.join_all(self.transactional_id, identity, list(partitions), joined.end, implicit_add=implicit_add)
        if not joined.is_over:
            await joined
            self.has_waited = True

    async def verify(self, partition: Partition, header: BatchHeader) -> bool:
        """Check that a partition belongs to the producer's transaction (KIP-890); with transaction version 2, add the partition.

        Returns whether other work has run meanwhile; if so, the caller must repeat its other checks. The caller must then append
        the batch without another wait. Raises `KafkaError`.
        """
        key = (partition.log.topic, partition.log.partition)
        identity = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        implicit_add = self.implicit_add
        others_ran = False
        while not _is_open(partition, header):
            if not others_ran:
                partition.log.producers.note_unverified(header, self.ports.clock.now_ms(), implicit_add=implicit_add)
            try:
                pause = join_transaction(
                    self.ports.verification,
                    self.transactional_id,
                    identity,
                    key,
                    implicit_add=implicit_add,
                    has_waited=self.has_waited,
                )
            except KafkaError as error:
                raise BeforeTheLog(verification_code(error.code, self.context.version), error.message) from None
            if pause is None:
                break
            await pause
            others_ran = self.has_waited = True
        return others_ran

    async def verify_refused(self, records: Buffer | None, refused: RefusedBatch) -> KafkaError:
        """Verify a refused batch. Returns the batch's error; an error of `verify` takes precedence.

        As in Kafka, a transactional batch is verified before its records are checked, so its partition may join the transaction
        although the batch is refused. Kafka checks the structure and the compression of the batch even earlier.
        """
        error, partition = refused.error, refused.partition
        if partition is None or error.code is Code.UNSUPPORTED_COMPRESSION_TYPE:
            return error
        header = _verifiable_header(records)
        if header is None:
            return error
        try:
            await self.verify(partition, header)
        except KafkaError as unverified:
            return unverified
        return error


def _is_open(partition: Partition, header: BatchHeader) -> bool:
    """Whether the partition has batches of the producer's open transaction. Raises INVALID_PRODUCER_EPOCH for an older epoch."""
    # Check the epoch before the coordinator does: after the transactional id has expired, a fenced producer must get
    # INVALID_PRODUCER_EPOCH, not INVALID_PRODUCER_ID_MAPPING (rule CRD-12, docs/rules.md).
    state = partition.log.producers.entries.get(header.producer_id)
    if state is not None:
        partition.log.producers.check_epoch(header)
    return state is not None and state.txn_first_offset >= 0 and state.epoch == header.producer_epoch


def _verifiable_header(records: Buffer | None) -> BatchHeader | None:
    """The header, if the records are one transactional batch. None for other records, which need no verification."""
    header = transactional_header(records)
    if header is None or records is None or header.size_bytes != len(records) or header.producer_id < 0:
        return None
    return header


def verification_code(code: Code, version: int) -> Code:
    if code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return Code.INVALID_TXN_STATE
    if code is Code.CONCURRENT_TRANSACTIONS and version < IMPLICIT_ADD_FROM:
        return Code.NOT_ENOUGH_REPLICAS
    return PRODUCE_CODES.get(code, code)
