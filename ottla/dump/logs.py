"""Reads a segment's log file: batches, records, and damaged parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.records import internal_topics
from ottla.client.records.record import ConsumedRecord, decoded
from ottla.protocol.errors import DecodeError, KafkaError
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import COMPRESSIONS, BatchHeader, marker_of
from ottla.storage.filesystem import File
from ottla.storage.walk import SoundBatches, whole_batches, whole_batches_behind

Entry = dict[str, Any]
"""An entry of a file. ``kind`` is its type, "unsound" for damage. The other fields depend on ``kind``."""


def log_entries(file: File, topic: str, partition: int, base_offset: int, *, with_records: bool) -> Iterator[Entry]:
    """Yield each batch, followed by its records. For a damaged part a description is yielded, then the complete batches after
    it."""
    position, offset = 0, base_offset
    while True:
        sound = SoundBatches(file, offset, position)
        for at, header, raw in sound:
            yield _batch(at, header)
            if header.is_control:
                yield _control(topic, partition, header, raw)
            elif with_records:
                yield from _records(topic, partition, header, raw)
        if sound.is_whole:
            return
        found = next(whole_batches(file, sound.end + 1, sound.next_offset), None)
        end = file.size if found is None else found[0]
        yield {
            "kind": "unsound",
            "position": sound.end,
            "size_bytes": end - sound.end,
            "reason": sound.reason or "the file ends inside a batch",
            "whole_batches_behind": whole_batches_behind(file, sound.end, sound.next_offset).batch_count,
        }
        if found is None:
            return
        position, offset = found[0], found[1].base_offset


def _batch(position: int, header: BatchHeader) -> Entry:
    return {
        "kind": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "position": position,
        "size_bytes": header.size_bytes,
        "record_count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "compression": COMPRESSIONS[header.compression] if header.compression < len(COMPRESSIONS) else str(header.compression),
        "max_timestamp_ms": header.max_timestamp_ms,
        "crc": header.crc,
    }


def _control(topic: str, partition: int, header: BatchHeader, raw: Buffer) -> Entry:
    try:
        first = next(decoded(topic, partition, raw, header), None)
        marker = None if first is None else marker_of(header, first.key, first.value)
    except (ClientError, KafkaError) as error:
        return {"kind": "unsound", "offset": header.base_offset, "reason": str(error)}
    if marker is None:
        return {"kind": "control", "offset": header.base_offset}
    return {
        "kind": "marker",
        "offset": header.base_offset,
        "marker": "COMMIT" if marker.commit else "ABORT",
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "coordinator_epoch": marker.coordinator_epoch,
        "timestamp_ms": header.max_timestamp_ms,
    }


def _records(topic: str, partition: int, header: BatchHeader, raw: Buffer) -> Iterator[Entry]:
    try:
        for record in decoded(topic, partition, raw, header):
            yield _record(record)
    except ClientError as error:
        yield {"kind": "unsound", "offset": header.base_offset, "reason": str(error)}


def _record(record: ConsumedRecord) -> Entry:
    entry: Entry = {"kind": "record", "offset": record.offset, "timestamp_ms": record.timestamp_ms}
    try:
        said = internal_topics.read(record.topic, record.key, record.value)
    except DecodeError as error:
        said = {"undecodable": str(error), "key": record.key, "value": record.value}
    if said is not None:
        return entry | said
    return entry | {"key": record.key, "value": record.value, "headers": [list(header) for header in record.headers]}
