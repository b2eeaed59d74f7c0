"""Finds partitions without a directory in the metadata log of a data directory.

ottla creates the directory of a partition with the first record, so a partition without records is only in the metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.protocol.codec import decode_body
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.messages import partition_record, remove_topic_record, topic_record
from ottla.protocol.primitives import read_uvarint
from ottla.protocol.records import read_records
from ottla.spark.errors import PipelineError
from ottla.spark.segments.directory import Directory
from ottla.storage.checkpoints import RECOVERY_POINTS, read_offsets
from ottla.storage.identity import DirectoryError, read_identity

_DECODERS: Final = {module.RECORD_TYPE: module.decode for module in (partition_record, remove_topic_record, topic_record)}


def partitions_without_records(directories: Sequence[Directory], topic: str) -> set[int]:
    """Return the partitions of a topic that have a replica on the broker of the directories, but no directory yet.

    The set is empty without a metadata log. Raises `PipelineError` for a damaged directory, and if the directory of a partition
    that had records is missing.
    """
    created = {index for one in directories if one.partitions(METADATA_TOPIC) for index in _created(one, topic)}
    for directory in directories:
        created -= set(directory.partitions(topic))
    for directory in directories:
        points = read_offsets(directory.fs, f"{directory.path}/{RECOVERY_POINTS}")
        for index in sorted(index for index in created if points.get((topic, index), 0) > 0):
            raise PipelineError(f"{directory.path}/{topic}-{index} is missing, but the partition had records; restore it")
    return created


def _created(directory: Directory, topic: str) -> set[int]:
    try:
        identity = read_identity(directory.fs, directory.path)
    except DirectoryError as error:
        raise PipelineError(str(error)) from None
    topic_id: bytes | None = None
    partitions: set[int] = set()
    for value in _values(directory):
        _, pos = read_uvarint(value, 0)
        kind, pos = read_uvarint(value, pos)
        version, pos = read_uvarint(value, pos)
        if kind not in _DECODERS:
            continue
        message = decode_body(_DECODERS[kind], value, pos, version)
        if kind == topic_record.RECORD_TYPE and message.name == topic:
            topic_id, partitions = message.topic_id, set()
        elif message.topic_id != topic_id:
            continue
        elif kind == remove_topic_record.RECORD_TYPE:
            topic_id, partitions = None, set()
        elif kind == partition_record.RECORD_TYPE and identity is not None and identity.node_id in message.replicas:
            partitions.add(message.partition_id)
    return partitions


def _values(directory: Directory) -> Iterator[bytes]:
    """Yield the values of the metadata log's records. The last batch may be incomplete."""
    segments = directory.segments(METADATA_TOPIC, 0)
    with directory.damage_told(METADATA_TOPIC, 0):
        for at in range(len(segments)):
            for header, raw in directory.sound_batches(segments, at, 0, may_be_torn=True):
                if not header.is_control:
                    yield from (record.value for record in read_records(raw) if record.value)
