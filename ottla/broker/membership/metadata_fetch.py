"""Fetches the metadata log as an observer, without a connection (KafkaRaftClient as a follower).

`request` is the next fetch, and `take` returns the step that its response requires: append batches, truncate the log, read a
snapshot, or fetch again.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from ottla.broker.membership.snapshot_fetch import SnapshotFetch
from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData, ReplicaState
from ottla.protocol.primitives import Buffer
from ottla.protocol.remedies import name_of

METADATA_TOPIC_ID = bytes(15) + b"\1"
"""The id of ``__cluster_metadata`` in every cluster (Uuid.METADATA_TOPIC_ID)."""
IDS_FROM = 15
"""The first version of Fetch that a controller accepts: with topic ids and `ReplicaState`."""
MAX_WAIT_MS = 500
"""How long the controller waits for new records, in ms (controller.quorum.fetch.timeout.ms is four times as long)."""
MAX_BYTES = 8 << 20
NO_EPOCH = -1


class Step(Enum):
    """The step that a fetch response requires."""

    APPEND = "append"
    """Append ``records``, which may be empty, and set the high watermark."""
    TRUNCATE = "truncate"
    """Truncate the log at ``end_offset``: later batches were never committed."""
    SNAPSHOT = "snapshot"
    """Read the snapshot that ends at ``end_offset``: the controller's log begins after the fetch offset."""
    ASK_AGAIN = "ask again"
    """Fetch again immediately, in the leader epoch of the response."""
    WAIT = "wait"
    """Fetch again later, because the fetch has failed."""


class FetchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a fetch. ``reason`` explains to a person why no batch was appended."""

    step: Step
    records: Buffer = b""
    high_watermark: int = -1
    end_offset: int = -1
    epoch: int = NO_EPOCH
    reason: str = ""


class MetadataFetch:
    """The fetch state of the metadata log: the leader epoch and the high watermark, if known."""

    def __init__(self, cluster_id: str, broker_id: int, directory_id: bytes) -> None:
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._directory_id = directory_id
        self.leader_epoch = 0
        self.high_watermark = -1

    def request(self, end_offset: int, last_epoch: int) -> FetchRequest:
        """The next fetch. ``end_offset`` is the copied log's end, ``last_epoch`` its last batch's epoch; 0 for an empty log."""
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=end_offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=0,
            partition_max_bytes=MAX_BYTES,
            replica_directory_id=self._directory_id,
            # If the request's high watermark differs from the controller's, the controller responds immediately (KIP-1166).
            high_watermark=self.high_watermark,
        )
        return FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=ReplicaState(replica_id=self._broker_id, replica_epoch=NO_EPOCH),
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=0,
            max_bytes=MAX_BYTES,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )

    def snapshot(self, end_offset: int, epoch: int) -> SnapshotFetch:
        """The fetch of the snapshot that a response names."""
        return SnapshotFetch(self._cluster_id, self._broker_id, self._directory_id, end_offset=end_offset, epoch=epoch)

    def take(self, response: FetchResponse) -> FetchOutcome:
        """The outcome of a response. Updates the leader epoch and the high watermark; the caller tracks the fetch offset."""
        if response.error_code != Code.NONE:
            return FetchOutcome(step=Step.WAIT, reason=f"the fetch failed with {name_of(response.error_code)}")
        partitions = [p for topic in response.responses if topic.topic_id == METADATA_TOPIC_ID for p in topic.partitions]
        if len(partitions) != 1 or partitions[0].partition_index != 0:
            return FetchOutcome(step=Step.WAIT, reason="the response must have exactly one partition of the metadata log")
        return self._take(partitions[0])

    def _take(self, partition: PartitionData) -> FetchOutcome:
        named = NO_EPOCH if partition.current_leader is None else partition.current_leader.leader_epoch
        is_newer = named > self.leader_epoch
        if is_newer:
            self.leader_epoch = named
        if partition.error_code in (Code.FENCED_LEADER_EPOCH, Code.UNKNOWN_LEADER_EPOCH, Code.NOT_LEADER_OR_FOLLOWER) and is_newer:
            return FetchOutcome(step=Step.ASK_AGAIN, epoch=named, reason=f"the leader epoch is {named}")
        if partition.error_code != Code.NONE:
            return FetchOutcome(step=Step.WAIT, reason=f"the fetch of the metadata log failed with {name_of(partition.error_code)}")
        diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
        if diverging is not None and diverging.epoch >= 0 and diverging.end_offset >= 0:
            return FetchOutcome(step=Step.TRUNCATE, end_offset=diverging.end_offset, epoch=diverging.epoch)
        if snapshot is not None and snapshot.epoch >= 0 and snapshot.end_offset >= 0:
            return FetchOutcome(step=Step.SNAPSHOT, end_offset=snapshot.end_offset, epoch=snapshot.epoch)
        # Ignore a lower high watermark: a newly elected controller may not know the current value yet.
        self.high_watermark = max(self.high_watermark, partition.high_watermark)
        return FetchOutcome(step=Step.APPEND, records=partition.records or b"", high_watermark=self.high_watermark)
