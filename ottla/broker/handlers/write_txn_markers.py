"""WriteTxnMarkers, versions 1 and 2 (KIP-98, KIP-664): ends transactions in the partitions that this broker leads.

- 2 (KIP-1228): each marker has the transaction version of its transaction.

The broker's own transaction coordinator calls `write_markers` directly. Kafka authorises ALTER or CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, check
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.each import each
from ottla.broker.loop.env import Timers
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.replication_wait import AppendedTo, replicated
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
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType

MARKER_WORK = 50
"""Estimated time to write a marker, in units of 2 us."""

NOT_READY = dict.fromkeys(
    (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR), Code.NOT_LEADER_OR_FOLLOWER
)
"""NOT_LEADER_OR_FOLLOWER replaces the errors of a group coordinator that does not serve its partition yet. Transaction coordinators
then retry the marker (KafkaApis.handleWriteTxnMarkersRequest)."""


REPLICATED_WITHIN_MS = 30_000
"""Maximum time in ms that a response waits for all in-sync replicas (Kafka's ``request.timeout.ms``)."""


class Ports(Protocol):
    partitions: Partitions
    groups: Groups
    barrier: Barrier
    timers: Timers


async def handle(ports: Ports, request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    return await write_markers(ports, request)


async def write_markers(ports: Ports, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write the markers of a request from a client or from this broker's own coordinator.

    The response waits until the markers are committed. A marker that is lost after a successful response would never be sent again.
    """
    leaderships_lost = ports.barrier.leaderships_lost
    response = await each(
        _partitions(request),
        lambda asked: _write(ports, *asked),
        lambda codes: _answer(request, codes),
        work=MARKER_WORK,
        groups=len(request.markers) + sum(len(marker.topics) for marker in request.markers),
    )
    if ports.barrier.is_replicated:
        await _replicated(ports, response, leaderships_lost)
    return response


async def _replicated(ports: Ports, response: WriteTxnMarkersResponse, leaderships_lost: int) -> None:
    """Wait until all in-sync replicas have the markers. Markers that are lost, or not replicated in time, get an error."""
    results: list[WritableTxnMarkerPartitionResult] = []
    appended: list[AppendedTo] = []
    for marker in response.markers:
        for topic in marker.topics:
            for result in topic.partitions:
                partition = ports.partitions.known(topic.name, result.partition_index) if result.error_code == Code.NONE else None
                if partition is not None:
                    results.append(result)
                    appended.append(AppendedTo(partition, partition.log.log_end_offset))
    codes = await replicated(ports.barrier, ports.timers, appended, leaderships_lost, REPLICATED_WITHIN_MS)
    for result, code in zip(results, codes, strict=True):
        result.error_code = code


def _partitions(request: WriteTxnMarkersRequest) -> Iterator[tuple[WritableTxnMarker, str, int]]:
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                yield marker, topic.name, index


def _answer(request: WriteTxnMarkersRequest, codes: Iterator[Code]) -> WriteTxnMarkersResponse:
    """Build the response. ``codes`` are in the order of `_partitions`. As in Kafka, markers without partitions are left out."""
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
        # No transaction has a negative id or epoch. In Kafka building the marker's batch fails with UNKNOWN_SERVER_ERROR.
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
    # An error for the whole request occurs, for example, if the group coordinator moved before its records were committed.
    return _answer(request, repeat(NOT_READY.get(code, code)))


def _authorise(authorizer: RequestAuthorizer, request: WriteTxnMarkersRequest, context: RequestContext) -> None:
    if not authorizer.allows(context, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False):
        check(authorizer, context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)


API = Declaration(
    key=27,
    handle=handle,
    failed=failed,
    authorisation=authorisations("ALTER CLUSTER, CLUSTER_ACTION CLUSTER"),
    authorise=_authorise,
)
