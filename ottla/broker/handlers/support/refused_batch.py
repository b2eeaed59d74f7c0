"""Reports a batch that Produce refused to the listener of transaction histories.

Appended batches are not reported, because they are in their partition's log.
"""

from __future__ import annotations

from ottla.broker.apis.api import RequestContext
from ottla.broker.hooks.transaction_history import Asker, Happened, Kind, TransactionListener, cut
from ottla.broker.loop.env import Clock
from ottla.broker.partitions.partitions import Partition
from ottla.protocol.errors import Code
from ottla.protocol.messages.produce import PartitionProduceData
from ottla.protocol.records import HEADER_BYTES, read_header


def report_refused(
    listener: TransactionListener,
    clock: Clock,
    context: RequestContext,
    transactional_id: str,
    data: PartitionProduceData,
    partition: Partition | None,
    code: Code,
) -> None:
    records = data.records or b""
    header = read_header(records) if len(records) >= HEADER_BYTES else None
    listener.happened(
        Happened(
            time_ms=clock.now_ms(),
            kind=Kind.REQUEST,
            transactional_id=transactional_id,
            producer_id=-1 if header is None else header.producer_id,
            producer_epoch=-1 if header is None else header.producer_epoch,
            error=code,
            asker=Asker(client_id=cut(context.client_id), client_host=context.client_host, api="Produce", version=context.version),
            partitions=() if partition is None else ((partition.log.topic, partition.log.partition),),
            partition_count=1,
        )
    )
