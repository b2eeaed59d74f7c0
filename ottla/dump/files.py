"""Recognises the files of a data directory by their names, and reads all files except logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from struct import Struct
from typing import Any, Final

from ottla.dump.logs import Entry, log_entries
from ottla.protocol.records import HEADER_BYTES, read_header
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage import snapshot
from ottla.storage.filesystem import File, Filesystem
from ottla.storage.indexes import OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.names import DELETE_SUFFIX, STRAY_SUFFIX, parse_directory_name, parse_snapshot_name
from ottla.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_file_name,
)
from ottla.storage.txn_index import ENTRY as TXN_ENTRY

MAX_WHOLE_BYTES: Final = 256 << 20
"""Maximum size of a file that is read at once, in bytes. A snapshot of five million producers has this size."""
PIECE_BYTES: Final = 1 << 16
"""Size of a read from a text file, in bytes."""
MAX_LINE_BYTES: Final = 1 << 20
PIECE_ENTRIES: Final = 10_000
"""Number of index entries per read."""
_TEXTS: Final = re.compile(r".*-checkpoint|partition\.metadata|meta\.properties|quorum-state", re.ASCII)
_LEFT_BEHIND: Final = re.compile(rf"({re.escape(DELETED_SUFFIX)}|{re.escape(CLEANED_SUFFIX)}|{re.escape(SWAP_SUFFIX)})$")
_DELETED_DIRECTORY: Final = re.compile(rf"\.[0-9a-f]{{32}}({DELETE_SUFFIX}|{STRAY_SUFFIX})$", re.ASCII)

Reader = Callable[[File, int], Iterator[Entry]]
"""A function that reads the entries of a file, given the file and the base offset of the segment."""


def is_known(name: str) -> bool:
    """Whether `entries` can read a file of this name."""
    name = _LEFT_BEHIND.sub("", name)
    suffixes = (LOG_SUFFIX, snapshot.SUFFIX, *_READERS)
    return name.endswith(suffixes) or parse_snapshot_name(name) is not None or bool(_TEXTS.fullmatch(name))


def entries(fs: Filesystem, path: str, *, with_records: bool = True) -> Iterator[Entry]:
    """Yield the entries of a file whose name `is_known` accepts. Raises OSError."""
    directory, name = PurePath(path).parent.name, _LEFT_BEHIND.sub("", PurePath(path).name)
    topic, partition = partition_of(directory)
    snapshot_of_metadata = parse_snapshot_name(name)
    file = fs.open(path)
    try:
        if snapshot_of_metadata is not None:
            # Offsets in a metadata snapshot begin at 0. The number in the file's name is the end offset, not the base offset.
            yield from log_entries(file, topic, partition, 0, with_records=with_records)
        elif name.endswith(LOG_SUFFIX):
            yield from log_entries(file, topic, partition, _base_offset(file, name), with_records=with_records)
        elif name.endswith(snapshot.SUFFIX):
            yield from _producers(file, parse_file_name(name, snapshot.SUFFIX))
        elif (suffix := PurePath(name).suffix) in _READERS:
            yield from _READERS[suffix](file, parse_file_name(name, suffix) or 0)
        else:
            yield from _lines(file)
    finally:
        file.close()


def partition_of(directory: str) -> TopicPartition:
    """Return the partition of a directory, even if the directory is marked as deleted or stray; ("", 0) for other directories."""
    return parse_directory_name(_DELETED_DIRECTORY.sub("", directory)) or ("", 0)


def _base_offset(file: File, name: str) -> int:
    """Return the base offset in the file's name. If the file was renamed, returns the first batch's base offset."""
    by_name = parse_file_name(name, LOG_SUFFIX)
    if by_name is not None or file.size < HEADER_BYTES:
        return by_name or 0
    return max(0, read_header(file.read(HEADER_BYTES, 0)).base_offset)


def _unpacked(file: File, form: Struct) -> Iterator[tuple[Any, ...]]:
    whole = file.size - file.size % form.size
    for at in range(0, whole, PIECE_ENTRIES * form.size):
        yield from form.iter_unpack(file.read(min(PIECE_ENTRIES * form.size, whole - at), at))


def _rest(file: File, form: Struct) -> Iterator[Entry]:
    surplus = file.size % form.size
    if surplus:
        reason = f"{surplus} bytes after the last entry: the size is not a multiple of an entry's size"
        yield {"kind": "unsound", "position": file.size - surplus, "reason": reason}


def _offset_index(file: File, base_offset: int) -> Iterator[Entry]:
    return _ascending(file, OFFSET_ENTRY, lambda raw: {"kind": "index", "offset": base_offset + raw[0], "position": raw[1]}, 0)


def _time_index(file: File, base_offset: int) -> Iterator[Entry]:
    return _ascending(file, TIME_ENTRY, lambda raw: {"kind": "time", "timestamp_ms": raw[0], "offset": base_offset + raw[1]}, 0)


def _txn_index(file: File, base_offset: int) -> Iterator[Entry]:
    names = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
    return _ascending(file, TXN_ENTRY, lambda raw: {"kind": "aborted", **dict(zip(names, raw, strict=True))}, 3)


def _ascending(file: File, form: Struct, shown: Callable[[tuple[Any, ...]], Entry], by: int) -> Iterator[Entry]:
    """Yield the entries of an index. An entry whose field number ``by`` is not larger than the previous entry's is reported as
    unsound, and ends the output. Zeros at the end, which a running Apache Kafka preallocates, are reported as padding."""
    last, nothing = -1, form.unpack(bytes(form.size))
    for number, raw in enumerate(_unpacked(file, form)):
        if raw == nothing and (number or file.size > form.size):
            yield {"kind": "padding", "position": number * form.size, "size_bytes": file.size - number * form.size}
            return
        if raw[by] <= last:
            yield {
                "kind": "unsound",
                "position": number * form.size,
                "reason": f"entry {number} is not larger than the entry before it",
            }
            return
        last = raw[by]
        yield shown(raw)
    yield from _rest(file, form)


def _whole(file: File) -> bytes | None:
    return file.read(file.size, 0) if file.size <= MAX_WHOLE_BYTES else None


_TOO_LARGE: Final[Entry] = {"kind": "unsound", "reason": f"the file has more than {MAX_WHOLE_BYTES >> 20} MiB"}


def _producers(file: File, offset: int | None) -> Iterator[Entry]:
    if offset is not None and file.size > snapshot.max_size_bytes(offset):
        yield {"kind": "unsound", "reason": f"the file has more entries than a log has batches below offset {offset:,}"}
        return
    raw = _whole(file)
    if raw is None:
        yield _TOO_LARGE
        return
    producers = snapshot.decode(raw)
    if producers is None:
        yield {"kind": "unsound", "reason": "the file is not a producer snapshot, or its CRC is wrong"}
        return
    for producer in producers:
        last = producer.last_batch
        yield {
            "kind": "producer",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "coordinator_epoch": producer.coordinator_epoch,
            "last_timestamp_ms": producer.last_timestamp_ms,
            "open_since_offset": None if producer.txn_first_offset < 0 else producer.txn_first_offset,
            "last_sequence": None if last is None else last.last_sequence,
            "last_offset": None if last is None else last.last_offset,
            "batches_known": len(producer.batches),
        }


def _lines(file: File) -> Iterator[Entry]:
    partial, at = b"", 0
    while at < file.size:
        piece = file.read(min(PIECE_BYTES, file.size - at), at)
        at += len(piece)
        *whole, partial = (partial + piece).split(b"\n")
        for line in whole:
            yield _line(line)
        if len(partial) > MAX_LINE_BYTES:
            reason = f"a line of more than {MAX_LINE_BYTES >> 10} KiB"
            yield {"kind": "unsound", "position": at - len(partial), "reason": reason}
            return
    if partial:
        yield _line(partial)


def _line(raw: bytes) -> Entry:
    return {"kind": "line", "text": raw.removesuffix(b"\r").decode("utf-8", "backslashreplace")}


_READERS: Final[dict[str, Reader]] = {
    INDEX_SUFFIX: _offset_index,
    TIME_INDEX_SUFFIX: _time_index,
    TXN_INDEX_SUFFIX: _txn_index,
}
