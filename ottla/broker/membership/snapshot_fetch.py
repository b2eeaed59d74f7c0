"""Fetches a snapshot of the cluster's metadata piece by piece, without a connection (KIP-630).

The controller keeps the metadata log from some offset on, and a snapshot of the records before that offset. A broker that starts
reads the snapshot first, and then the log from the snapshot's end.
"""

from __future__ import annotations

from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from ottla.protocol.remedies import name_of

PIECE_BYTES = 8 << 20
MAX_SNAPSHOT_BYTES = 256 << 20
"""The largest snapshot that is read, in bytes. A snapshot is in memory until complete. For 10,000 partitions it has about 1 MB."""


class SnapshotRefused(Exception):
    """The snapshot cannot be fetched; the text is the reason. The next fetch of the log names the current snapshot."""


class SnapshotFetch:
    """The fetch of the snapshot that ends before ``end_offset`` in leader epoch ``epoch``."""

    def __init__(self, cluster_id: str, broker_id: int, directory_id: bytes, *, end_offset: int, epoch: int) -> None:
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._directory_id = directory_id
        self.end_offset = end_offset
        self.epoch = epoch
        self._read = bytearray()

    def request(self, leader_epoch: int) -> FetchSnapshotRequest:
        """The request for the next piece of the snapshot."""
        partition = PartitionSnapshot(
            partition=0,
            current_leader_epoch=leader_epoch,
            snapshot_id=SnapshotId(end_offset=self.end_offset, epoch=self.epoch),
            position=len(self._read),
            replica_directory_id=self._directory_id,
        )
        return FetchSnapshotRequest(
            cluster_id=self._cluster_id,
            replica_id=self._broker_id,
            max_bytes=PIECE_BYTES,
            topics=[TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
        )

    def take(self, response: FetchSnapshotResponse) -> bytes | None:
        """Process a piece; returns the whole snapshot after its last piece. Raises `SnapshotRefused`."""
        if response.error_code != Code.NONE:
            raise SnapshotRefused(f"the fetch failed with {name_of(response.error_code)}")
        pieces = [p for topic in response.topics if topic.name == METADATA_TOPIC for p in topic.partitions]
        if len(pieces) != 1:
            raise SnapshotRefused("the response must have exactly one partition of the metadata log")
        (piece,) = pieces
        if piece.error_code != Code.NONE:
            raise SnapshotRefused(f"the fetch of the snapshot failed with {name_of(piece.error_code)}")
        if (piece.snapshot_id.end_offset, piece.snapshot_id.epoch) != (self.end_offset, self.epoch):
            raise SnapshotRefused("the response is for another snapshot")
        if piece.position != len(self._read):
            raise SnapshotRefused(f"the response has position {piece.position} instead of {len(self._read)}")
        if piece.size > MAX_SNAPSHOT_BYTES:
            raise SnapshotRefused(f"the snapshot has {piece.size} bytes; at most {MAX_SNAPSHOT_BYTES} are allowed")
        self._read += piece.unaligned_records
        if len(self._read) > piece.size or (len(self._read) < piece.size and not len(piece.unaligned_records)):
            raise SnapshotRefused(f"the snapshot ends after {len(self._read)} of {piece.size} bytes")
        return bytes(self._read) if len(self._read) == piece.size else None
