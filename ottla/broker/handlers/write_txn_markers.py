"""WriteTxnMarkers, versions 1 and 2 (KIP-98, KIP-664): ends transactions in the partitions that this broker leads.

- 2 (KIP-1228): each marker has the transaction version of its transaction.

The broker's own transaction coordinator calls `write_markers` directly. Kafka authorises ALTER or CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Protocol

from ottla.broker.api import Declaration, RequestContext
from ottla.broker.authorisation import authorisations
from ottla.broker.groups import Groups
from ottla.broker.handlers.each import Handled, each
from ottla.broker.partitions import Partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.records import EndTxnMarker
from ottla.storage.steps import Steps, run_first_step

MARKER_WORK = 50
"""The cost of one marker, in units of `storage.steps.Pace`."""

NOT_READY = dict.fromkeys(
    (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR), Code.NOT_LEADER_OR_FOLLOWER
)
"""The errors of a group coordinator that does not serve a partition of ``__consumer_offsets`` yet. A transaction coordinator knows
none of them, and sends the marker again upon NOT_LEADER_OR_FOLLOWER (KafkaApis.handleWriteTxnMarkersRequest)."""


class Ports(Protocol):
    partitions: Partitions
    groups: Groups


def handle(ports: Ports, request: WriteTxnMarkersRequest, context: RequestContext) -> Handled[WriteTxnMarkersResponse]:
    return run_first_step(write_markers(ports, request))


def write_markers(ports: Ports, request: WriteTxnMarkersRequest) -> Steps[WriteTxnMarkersResponse]:
    """Write the markers of a request, of a client or of this broker's own coordinator."""
    return each(
        _partitions(request),
        lambda asked: _write(ports, *asked),
        lambda codes: _answer(request, codes),
        work=MARKER_WORK,
        groups=len(request.markers) + sum(len(marker.topics) for marker in request.markers),
    )


def _partitions(request: WriteTxnMarkersRequest) -> Iterator[tuple[WritableTxnMarker, str, int]]:
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                yield marker, topic.name, index


def _answer(request: WriteTxnMarkersRequest, codes: Iterator[Code]) -> WriteTxnMarkersResponse:
    """The response. ``codes`` are in the order of `_partitions`. As in Kafka, a marker without partitions is left out."""
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=next(codes))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
            if any(topic.partition_indexes for topic in marker.topics)
        ]
    )


def _write(ports: Ports, asked: WritableTxnMarker, topic: str, index: int) -> Code:
    if not ports.partitions.exists(topic, index):
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    if asked.producer_id < 0 or asked.producer_epoch < 0:
        # No transaction has such an id or epoch. In Kafka building the marker's batch fails, and clients get this code.
        return Code.UNKNOWN_SERVER_ERROR
    marker = EndTxnMarker(asked.producer_id, asked.producer_epoch, asked.transaction_result, asked.coordinator_epoch)
    try:
        if topic == OFFSETS_TOPIC:
            ports.partitions.get(topic, index)
            ports.groups.append_marker(index, marker, asked.transaction_version)
        else:
            ports.partitions.get(topic, index).append_marker(marker, asked.transaction_version)
    except KafkaError as error:
        return NOT_READY.get(error.code, error.code)
    return Code.NONE


def failed(request: WriteTxnMarkersRequest, version: int, code: Code) -> WriteTxnMarkersResponse:
    return _answer(request, repeat(code))


API = Declaration(
    key=27,
    handle=handle,
    failed=failed,
    authorisation=authorisations("ALTER CLUSTER, CLUSTER_ACTION CLUSTER"),
)
