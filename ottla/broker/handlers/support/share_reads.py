"""Reads a share partition, acquires records for a member, and returns the batches with acquired records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.broker.coordinators.share_partitions import OpenSharePartition, SharePartitions
from ottla.coordinator.share_state.acquisition import AbortedTransaction, AcquiredRecords, AcquireRequest, FetchedBatch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.markers import read_marker
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import batches
from ottla.storage.reading import Slice

SLICE_BYTES = 1 << 20
"""Maximum number of bytes that a fetch reads from one share partition. A larger ``min_bytes`` raises this limit."""
CHECKED_AT_ONCE = 100
"""Maximum number of batches written before the broker's start that one read checks. One step may read many share partitions."""


class AcquiredBatches(NamedTuple):
    """The batches of a share partition that contain the acquired records. ``read_bytes`` is the size of all batches read."""

    records: Buffer
    acquired: Sequence[AcquiredRecords]
    read_bytes: int


class AcquireOptions(NamedTuple):
    """The options of a ShareFetch request, the same for all its partitions."""

    member_id: str
    batch_size: int
    is_record_limit: bool
    is_committed: bool


NOTHING = AcquiredBatches(b"", (), 0)


def read(shared: OpenSharePartition, max_bytes: int, *, committed: bool, min_one_batch: bool) -> Slice:
    """Read the share partition from the first record that can be delivered. Raises `KafkaError`."""
    offset = shared.partition.next_fetch_offset()
    return shared.source.read(offset, max_bytes, committed=committed, min_one_batch=min_one_batch, most_checks=CHECKED_AT_ONCE)


def take(
    share_partitions: SharePartitions,
    shared: OpenSharePartition,
    options: AcquireOptions,
    max_records: int,
    max_bytes: int,
    *,
    is_first: bool,
) -> AcquiredBatches:
    """Read records and lock them for the member. Other work cannot run between reading and locking, so no other member gets the
    same records.

    If the next record to deliver was deleted, the share partition's start moves to the log start offset, where the next fetch
    continues. Raises `KafkaError`.
    """
    fetch_offset = shared.partition.next_fetch_offset()
    try:
        piece = read(shared, max_bytes, committed=options.is_committed, min_one_batch=is_first)
    except KafkaError as error:
        if error.code is not Code.OFFSET_OUT_OF_RANGE:
            raise
        shared.partition.move_log_start(shared.source.log.log_start_offset)
        return NOTHING
    # Records above ``most_offset`` cannot be acquired, because the lock limit is reached first. Their batches need not be parsed.
    most_offset = max(shared.partition.end_offset, fetch_offset) + shared.partition.config.max_record_locks
    fetched, positions = _batches_and_positions(piece.data, most_offset)
    request = AcquireRequest(
        member_id=options.member_id,
        fetch_offset=fetch_offset,
        batches=fetched,
        max_records=max_records,
        batch_size=options.batch_size,
        is_record_limit=options.is_record_limit,
        aborted=[AbortedTransaction(a.producer_id, a.first_offset) for a in piece.aborted or ()],
    )
    acquired = share_partitions.acquire(shared, request)
    if not acquired:
        return AcquiredBatches(b"", (), len(piece.data))
    return AcquiredBatches(_only(piece.data, fetched, positions, acquired), acquired, len(piece.data))


def _batches_and_positions(data: Buffer, most_offset: int) -> tuple[list[FetchedBatch], list[int]]:
    """Return the batches that begin at or below ``most_offset``, their positions in ``data``, and the end of the last batch."""
    fetched: list[FetchedBatch] = []
    positions: list[int] = []
    end = 0
    for position, header in batches(data):
        if header.base_offset > most_offset:
            break
        end = position + header.size_bytes
        marker = read_marker(memoryview(data)[position:end], header) if header.is_control else None
        fetched.append(
            FetchedBatch(
                first_offset=header.base_offset,
                last_offset=header.last_offset,
                producer_id=header.producer_id,
                is_transactional=header.is_transactional,
                is_abort_marker=marker is not None and not marker.commit,
            )
        )
        positions.append(position)
    positions.append(end)
    return fetched, positions


def _only(data: Buffer, fetched: list[FetchedBatch], positions: list[int], acquired: Sequence[AcquiredRecords]) -> Buffer:
    """The bytes of the batches from the first to the last acquired record (ShareFetchUtils.maybeSliceFetchRecords)."""
    first = next((at for at, batch in enumerate(fetched) if batch.last_offset >= acquired[0].first_offset), 0)
    beyond = next((at for at, batch in enumerate(fetched) if batch.first_offset > acquired[-1].last_offset), len(fetched))
    return memoryview(data)[positions[first] : positions[beyond]]
