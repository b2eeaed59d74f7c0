"""WriteTxnMarkers, versions 1 and 2 (KIP-98, KIP-664, KIP-1228): ends transactions in the partitions led here.

The transaction coordinator comes this way too, without the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.api import Context, Declaration
from coordinator.cluster import OFFSETS_TOPIC
from protocol.errors import Code, KafkaError
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from protocol.records import EndTxnMarker

if TYPE_CHECKING:
    from broker.broker import Broker


def handle(context: Context, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return write_markers(context.broker, request)


def write_markers(broker: Broker, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                asked.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(i, _write(broker, asked, topic.name, i))
                            for i in topic.partition_indexes
                        ],
                    )
                    for topic in asked.topics
                ],
            )
            for asked in request.markers
        ]
    )


def _write(broker: Broker, asked: WritableTxnMarker, topic: str, index: int) -> Code:
    if asked.producer_id < 0 or asked.producer_epoch < 0:
        # No transaction is theirs. Kafka's own builder of such a batch fails, which clients see as this code.
        return Code.UNKNOWN_SERVER_ERROR
    marker = EndTxnMarker(asked.producer_id, asked.producer_epoch, asked.transaction_result, asked.coordinator_epoch)
    try:
        if topic == OFFSETS_TOPIC:
            broker.partitions.get(topic, index)
            broker.groups.append_marker(index, marker, asked.transaction_version)
        else:
            broker.partitions.get(topic, index).append_marker(marker, asked.transaction_version)
    except KafkaError as error:
        return error.code
    return Code.NONE


def failed(request: WriteTxnMarkersRequest, version: int, code: Code) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                m.producer_id,
                [
                    WritableTxnMarkerTopicResult(t.name, [WritableTxnMarkerPartitionResult(i, code) for i in t.partition_indexes])
                    for t in m.topics
                ],
            )
            for m in request.markers
        ]
    )


API = Declaration(27, handle, failed)
