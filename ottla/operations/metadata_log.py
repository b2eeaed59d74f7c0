"""The cluster's metadata log in a data directory: its settings, the feature levels of a new log, and its replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import decode_body
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import topic_record
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader
from ottla.storage.config import LogConfig
from ottla.storage.reading import records_of

RECORDS_PER_BATCH = 1_000
"""Number of records in a batch of a metadata log or snapshot."""

METADATA_CONFIG = LogConfig(retention_ms=-1, segment_ms=1 << 62, max_message_bytes=64 << 20, message_timestamp_after_max_ms=1 << 62)
"""The metadata log has no retention, does not roll segments by time, and accepts batches of any size."""

DEFAULT_FEATURES = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "metadata.version": 33,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The feature levels of a new directory, as in Apache Kafka 4.4 (4.4-IV2)."""


METADATA_4_4 = 31
"""The level 4.4-IV0 of ``metadata.version``, from which a new directory has share.version 2 (ShareVersion)."""


def levels_with(current: Mapping[str, int], asked: Mapping[str, int]) -> dict[str, int]:
    """Return the feature levels after ``asked`` has replaced some of ``current``.

    With a metadata.version before 4.4, share.version is lowered to a level that brokers of that version support, unless ``asked``
    has share.version.
    """
    changed = {**current, **asked}
    if asked.get("metadata.version", METADATA_4_4) < METADATA_4_4 and "share.version" not in asked:
        changed["share.version"] = min(changed.get("share.version", 0), 1)
    return changed


def replay_batch(state: ClusterState, header: BatchHeader, raw: Buffer, *, is_strict: bool) -> None:
    """Replay a batch of the metadata log into ``state``.

    A record that cannot be replayed, such as a record of another Kafka version, raises DecodeError with its offset if
    ``is_strict``; else it is skipped. Raises `KafkaError` for a batch that cannot be read.
    """
    for record in () if header.is_control else records_of(raw, header):
        try:
            state.replay(LogRecord(record.key, record.value), record.offset)
        except (DecodeError, KeyError, IndexError) as error:
            if is_strict:
                raise DecodeError(f"record {record.offset}: {error}") from error


def topics_born(batches: Iterable[tuple[BatchHeader, Buffer]]) -> dict[str, int]:
    """Return the creation time in ms of the newest topic of each name, from the batches of the metadata log."""
    born_ms: dict[str, int] = {}
    for header, raw in batches:
        for record in () if header.is_control else records_of(raw, header):
            value = record.value or b""
            # Each value begins with frame version, record type and record version, one byte each.
            if len(value) > 3 and value[1] == topic_record.RECORD_TYPE:
                try:
                    born_ms[decode_body(topic_record.decode, value, 3, value[2]).name] = header.max_timestamp_ms
                except DecodeError:
                    continue
    return born_ms
