"""The cluster's metadata log as it lies in a data directory: where, by which settings, and what a fresh one begins with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.cluster import ClusterState
from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import decode_body
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import topic_record
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader
from ottla.storage.config import LogConfig
from ottla.storage.reading import records_of

RECORDS_PER_BATCH = 1_000
"""How many records are written into one batch of a metadata log or snapshot."""

METADATA_CONFIG = LogConfig(retention_ms=-1, segment_ms=1 << 62, max_message_bytes=64 << 20, message_timestamp_after_max_ms=1 << 62)
"""The metadata log is never cut, rolled by time or refused for its size."""

DEFAULT_FEATURES = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "metadata.version": 33,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""Levels of a fresh directory: those of Apache Kafka 4.4 (4.4-IV2)."""


METADATA_4_4 = 31
"""4.4-IV0, the level of ``metadata.version`` from which on a directory begins with share.version 2 (ShareVersion)."""


def levels_with(current: Mapping[str, int], asked: Mapping[str, int]) -> dict[str, int]:
    """The levels of a directory that is to have those that are asked for.

    Who asks for the metadata.version of a release before 4.4 gets a share.version that such a broker knows, unless one is named.
    """
    changed = {**current, **asked}
    if asked.get("metadata.version", METADATA_4_4) < METADATA_4_4 and "share.version" not in asked:
        changed["share.version"] = min(changed.get("share.version", 0), 1)
    return changed


def replay_batch(state: ClusterState, header: BatchHeader, raw: Buffer, *, is_strict: bool) -> None:
    """Take a batch of the metadata log into ``state``.

    With ``is_strict`` raises DecodeError, which names the record's offset, for one that cannot be taken; without it such records
    are passed over, as are those of other Kafka versions. Raises `KafkaError` for a batch that cannot be read.
    """
    for record in () if header.is_control else records_of(raw, header):
        try:
            state.replay(LogRecord(record.key, record.value))
        except (DecodeError, KeyError, IndexError) as error:
            if is_strict:
                raise DecodeError(f"record {record.offset}: {error}") from error


def topics_born(batches: Iterable[tuple[BatchHeader, Buffer]]) -> dict[str, int]:
    """When the newest topic of each name was made, in ms, from the batches of the metadata log."""
    born_ms: dict[str, int] = {}
    for header, raw in batches:
        for record in () if header.is_control else records_of(raw, header):
            value = record.value or b""
            # Frame version, record type and record version are one byte each.
            if len(value) > 3 and value[1] == topic_record.RECORD_TYPE:
                try:
                    born_ms[decode_body(topic_record.decode, value, 3, value[2]).name] = header.max_timestamp_ms
                except DecodeError:
                    continue
    return born_ms
