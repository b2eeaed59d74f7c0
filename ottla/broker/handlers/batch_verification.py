"""The part of Produce that asks the transaction coordinator about transactional batches before their append (KIP-890).

`join_partitions` asks about all partitions of a request at once, so that one record of the coordinator adds them all. Then `verify`
is called directly before each append, because the transaction may have ended since.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from ottla.broker.api import RequestContext
from ottla.broker.cluster import Cluster
from ottla.broker.env import Clock
from ottla.broker.handlers.produce_partition import partition_of
from ottla.broker.partitions import Partition, Partitions
from ottla.broker.verification import PRODUCE_CODES, Verification, join_transaction
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.records import HEADER_BYTES, TRANSACTIONAL_BIT, BatchHeader, read_header
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.steps import Pace, Pause, Steps

IMPLICIT_ADD_FROM = 12
"""The first version of Produce whose batches add their partition to the transaction."""
ABORTABLE_FROM = 11
"""The first version that knows TRANSACTION_ABORTABLE."""


PARTITION_WORK = 2
"""The cost of looking at one partition in units of `Pace`."""


class Ports(Protocol):
    clock: Clock
    cluster: Cluster
    partitions: Partitions
    verification: Verification


class BeforeTheLog(KafkaError):
    """An error from before the log was asked, so that the answer has no log start offset."""


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """What the coordinator has answered about all partitions of a request."""

    partitions: Collection[TopicPartition] = ()
    """The partitions that the coordinator was asked about."""
    refusal: KafkaError | None = None
    """The error of all of them."""
    has_waited: bool = False
    """Whether the answer took a while, as in `Verification.join`."""


def join_partitions(ports: Ports, context: RequestContext, request: ProduceRequest, pace: Pace) -> Steps[Joined]:
    """Ask the coordinator about all partitions of a transactional request, as ReplicaManager.handleProduceAppend does.

    As in Kafka, a partition is added when it is known here and its batch can be told to be transactional. A batch whose records are
    refused afterwards leaves its partition in the transaction.
    """
    identity: ProducerIdAndEpoch | None = None
    partitions: dict[TopicPartition, None] = {}
    for topic in request.topic_data:
        for data in topic.partition_data:
            if pace.spend(PARTITION_WORK):
                yield None
            records = data.records
            if records is None or len(records) < HEADER_BYTES or records[16] != 2 or not records[22] & TRANSACTIONAL_BIT:
                continue
            header = read_header(records)
            if header.size_bytes != len(records) or header.producer_id < 0:
                continue
            producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
            if identity is None:
                identity = producer
            try:
                partition = partition_of(ports, context, topic, data.index)
                if producer == identity and not _is_open(partition, header):
                    partitions[partition.log.topic, partition.log.partition] = None
            except KafkaError:
                # The batch is refused for this reason when its turn comes.
                continue
    if identity is None or not partitions or request.transactional_id is None:
        return Joined()
    answers: list[KafkaError | None] = []
    pause = Pause()

    def answered(refusal: KafkaError | None) -> None:
        answers.append(refusal)
        pause.end()

    implicit_add = context.version >= IMPLICIT_ADD_FROM
    ports.verification.join_all(request.transactional_id, identity, list(partitions), answered, implicit_add=implicit_add)
    has_waited = not answers
    if has_waited:
        yield pause
    # Where partitions are only verified, `verify` gets the error once more, and notes the batch that it refuses.
    return Joined(partitions=partitions, refusal=answers[0] if implicit_add else None, has_waited=has_waited)


def check_joined(joined: Joined | None, partition: Partition, version: int) -> None:
    """Raise the coordinator's error where it has refused all partitions. As in Kafka, this error precedes those of the records."""
    if joined is not None and joined.refusal is not None and (partition.log.topic, partition.log.partition) in joined.partitions:
        raise BeforeTheLog(verification_code(joined.refusal.code, version), joined.refusal.message)


def _is_open(partition: Partition, header: BatchHeader) -> bool:
    """Whether the producer has written to the partition in this transaction. Raises INVALID_PRODUCER_EPOCH for an older epoch."""
    # The epoch is checked first: where the transactional id has expired, a fenced producer must still get INVALID_PRODUCER_EPOCH,
    # and not INVALID_PRODUCER_ID_MAPPING (rule CRD-12, docs/rules.md).
    partition.log.producers.check_epoch(header)
    state = partition.log.producers.entries.get(header.producer_id)
    return state is not None and state.txn_first_offset >= 0 and state.epoch == header.producer_epoch


def verify(
    ports: Ports,
    context: RequestContext,
    transactional_id: str,
    partition: Partition,
    header: BatchHeader,
    *,
    has_waited: bool,
) -> Pause | None:
    """Check that a partition belongs to the producer's transaction (KIP-890). With transaction version 2 this adds the partition.

    None where the batch may be appended now, else a `Pause` as `join_transaction` gives it, which also says what ``has_waited`` is.
    Raises `KafkaError`.
    """
    if _is_open(partition, header):
        return None
    key = (partition.log.topic, partition.log.partition)
    identity = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
    implicit_add = context.version >= IMPLICIT_ADD_FROM
    try:
        return join_transaction(
            ports.verification, transactional_id, identity, key, implicit_add=implicit_add, has_waited=has_waited
        )
    except KafkaError as error:
        if not implicit_add:
            partition.log.producers.note_unverified(header, ports.clock.now_ms())
        raise BeforeTheLog(verification_code(error.code, context.version), error.message) from None


def verification_code(code: Code, version: int) -> Code:
    if code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return Code.INVALID_TXN_STATE
    if code is Code.CONCURRENT_TRANSACTIONS and version < IMPLICIT_ADD_FROM:
        return Code.NOT_ENOUGH_REPLICAS
    return PRODUCE_CODES.get(code, code)
