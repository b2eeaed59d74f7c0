"""Producer snapshots (``.snapshot``): the producer state at an offset, so that a starting broker need not read the whole log.

Apache Kafka writes one entry for each producer, with the producer's last batch. ottla also writes entries for the batches before
the last, oldest first. A client may have five batches in flight, and after a broker's restart it retries all batches that were
stored but not acknowledged. If the broker knows only the last batch, the first retry looks out of order, and a Java producer
without a transactional id begins a new epoch and stores the batches again. Apache Kafka can read such a file, because it uses the
last entry of each producer id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest
from struct import Struct
from struct import error as StructError

from crc32c import crc32c

from ottla.storage.filesystem import Filesystem
from ottla.storage.producer_state import NO_BATCH, BatchMetadata, ProducerEntry, ProducerState
from ottla.storage.segment import parse_file_name

SUFFIX = ".snapshot"
VERSION = 1
_HEAD = Struct(">hIi")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_CRC_START = 6
MAX_WHOLE_PRODUCERS = 10_000
"""Maximum number of producers for which a snapshot has more than the last batch. The producers that wrote most recently are chosen,
because long idle producers do not retry."""


def path_of(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}{SUFFIX}"


def encode(state: ProducerState) -> bytes:
    entries = state.entries.values()
    recent: Iterable[ProducerEntry] = entries
    if len(entries) > MAX_WHOLE_PRODUCERS:
        recent = nlargest(MAX_WHOLE_PRODUCERS, entries, key=lambda entry: entry.last_timestamp_ms)
    earlier = [raw for entry in recent for raw in _earlier(entry)]
    body: bytes = _COUNT.pack(len(earlier) + len(entries)) + b"".join(earlier) + b"".join(map(_last, entries))
    return VERSION.to_bytes(2, "big") + int(crc32c(body)).to_bytes(4, "big") + body


def _earlier(entry: ProducerEntry) -> Iterator[bytes]:
    for batch in entry.batches[:-1]:
        yield _encoded(entry, batch)


def _last(entry: ProducerEntry) -> bytes:
    return _encoded(entry, entry.last_batch or NO_BATCH)


def _encoded(entry: ProducerEntry, batch: BatchMetadata) -> bytes:
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def decode(raw: bytes) -> list[ProducerEntry] | None:
    """The producers in a snapshot; None if the file is not a sound snapshot of a known version."""
    try:
        version, crc, count = _HEAD.unpack_from(raw)
        if version != VERSION or crc32c(memoryview(raw)[_CRC_START:]) != crc:
            return None
        if len(raw) != _HEAD.size + count * _ENTRY.size:
            return None
    except StructError:
        return None
    entries: dict[int, ProducerEntry] = {}
    for at in range(_HEAD.size, len(raw), _ENTRY.size):
        pid, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first = _ENTRY.unpack_from(raw, at)
        entry = entries.get(pid)
        if entry is None or entry.epoch != epoch:
            entry = entries[pid] = ProducerEntry(pid, epoch, first)
        entry.seen(timestamp, coordinator_epoch)
        if offset >= 0:
            entry.add(sequence, delta, offset, timestamp, timestamp)
    return list(entries.values())


def max_size_bytes(offset: int) -> int:
    """The largest possible size of a snapshot at an offset: each entry belongs to a different batch or marker at a lower offset."""
    return _HEAD.size + offset * _ENTRY.size


def read(fs: Filesystem, directory: str, offset: int) -> list[ProducerEntry] | None:
    """The producers in the snapshot at an offset; None if the snapshot is not sound.

    A file above the possible size is not read, because it may take any amount of memory.
    """
    path = path_of(directory, offset)
    file = fs.open(path)
    try:
        size_bytes = file.size
    finally:
        file.close()
    return decode(fs.read_file(path) or b"") if size_bytes <= max_size_bytes(offset) else None


def offsets(fs: Filesystem, directory: str) -> list[int]:
    """Offsets of the snapshots in a directory, ascending."""
    parsed = (parse_file_name(name, SUFFIX) for name in fs.list_dir(directory))
    return [offset for offset in parsed if offset is not None]


def write(fs: Filesystem, directory: str, state: ProducerState, offset: int) -> None:
    fs.write_file(path_of(directory, offset), encode(state))


def load_newest(fs: Filesystem, directory: str, state: ProducerState, at_most: int) -> int | None:
    """Fill ``state`` from the newest sound snapshot at or below the offset ``at_most``.

    Returns the snapshot's offset; None without such a snapshot. Deletes unsound snapshots that it reads, as Kafka does.
    """
    for offset in reversed(offsets(fs, directory)):
        if offset > at_most:
            continue
        entries = read(fs, directory, offset)
        if entries is not None:
            state.replace(entries)
            return offset
        fs.unlink(path_of(directory, offset))
    return None
