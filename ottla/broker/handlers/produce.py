"""Produce, versions 3 to 13 (KIP-98): appends batches to partitions that this broker leads, also in transactions.

- 3: record batches have magic 2 with producer id, epoch and sequence; the request has the transactional id.
- 5 (KIP-107): the response has the log start offset.
- 7 (KIP-110): batches may be compressed with zstd, which older versions refuse.
- 8 (KIP-467): the response lists refused records with the reasons.
- 11 (KIP-890): adds the error TRANSACTION_ABORTABLE, in older versions INVALID_TXN_STATE.
- 12 (KIP-890): the partition is added to the transaction by its first batch, without AddPartitionsToTxn.
- 13 (KIP-516): topics by id.

With acks=0 there is no response, and an error closes the connection. With acks=all `append_batches` waits for the in-sync replicas.

WRITE is needed on each topic, and on the transactional id of a request with transactional batches.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext, RequestRefused, WaitsFor
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.handlers.support.produce_append import Ports, append_batches
from ottla.protocol.errors import Code, known_code
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse


async def handle(ports: Ports, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    response = await append_batches(ports, request, context)
    if not request.acks:
        _close_if_refused(response)
        return None
    return response


def _close_if_refused(response: ProduceResponse) -> None:
    """Raise `RequestRefused` if a batch with acks=0 got an error: only the closed connection tells the producer about the error."""
    codes = {result.error_code for topic in response.responses for result in topic.partition_responses} - {Code.NONE}
    if codes:
        raise RequestRefused(f"a batch with acks=0 was refused with {', '.join(sorted(Code(code).name for code in codes))}")


def failed(request: ProduceRequest, version: int, code: Code) -> ProduceResponse:
    if request.acks == 0:
        raise RequestRefused(f"a Produce request with acks=0 was refused with {known_code(code).name}")
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


API = Declaration(
    key=0,
    handle=handle,
    failed=failed,
    authorisation=authorisations("WRITE TRANSACTIONAL_ID, WRITE TOPIC", by_handler=True),
    waits_for=WaitsFor.DURABILITY,
)
