"""Collects the history of a transactional id from the files of a data directory of ottla or Apache Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice

from ottla.client.errors import ClientError
from ottla.client.explain.timeline import MAX_DATA_RECORDS, Logged, TimelineEvent, events, logged
from ottla.client.records.record import ConsumedRecord, decoded
from ottla.operations.directory_audit import logs_of
from ottla.operations.segments import sound_batches
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.records import BatchHeader
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryError
from ottla.storage.segment import LOG_SUFFIX, file_name


def timeline(fs: Filesystem, directory: str, transactional_id: str) -> list[TimelineEvent]:
    """Return the events of a transactional id, like `client.explain.timeline.timeline`. Raises OSError, and `DirectoryError` if no
    log contains the id."""
    logs = logs_of(fs, directory)
    for where in sorted(logs):
        if where[0] != TRANSACTION_TOPIC:
            continue
        states = list(_states(fs, directory, logs, where, transactional_id))
        if states:
            return events(states, f"{where[0]}:{where[1]}", _written(fs, directory, logs, states))
    raise DirectoryError(f"no log in {directory} has the transactional id {transactional_id!r}")


def _states(
    fs: Filesystem, directory: str, logs: dict[TopicPartition, list[int]], where: TopicPartition, transactional_id: str
) -> Iterator[Logged]:
    for header, raw in _batches(fs, directory, logs, where):
        for record in () if header.is_control else _records(where, header, raw):
            state = logged(transactional_id, record.key, record.value, record.offset, record.timestamp_ms)
            if state is not None:
                yield state


def _written(
    fs: Filesystem, directory: str, logs: dict[TopicPartition, list[int]], states: Collection[Logged]
) -> list[ConsumedRecord]:
    """Return records in the files that producers of the transactional id wrote. ``states``: the logged states of the id."""
    producers = {state.producer_id for state in states}
    written: list[ConsumedRecord] = []
    for where in sorted({partition for state in states for partition in state.partitions}):
        for header, raw in _batches(fs, directory, logs, where):
            if header.producer_id in producers and header.is_transactional:
                written += islice(_records(where, header, raw), MAX_DATA_RECORDS + 1)
            if len(written) > MAX_DATA_RECORDS:
                # There are too many data records, so the timeline only has the events of the coordinator's log.
                return []
    return written


def _records(where: TopicPartition, header: BatchHeader, raw: memoryview) -> Iterator[ConsumedRecord]:
    # Records that cannot be decoded are skipped here; `ottla dump` reports them.
    with suppress(ClientError):
        yield from decoded(*where, raw, header)


def _batches(
    fs: Filesystem, directory: str, logs: dict[TopicPartition, list[int]], where: TopicPartition
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches of a partition up to the first damaged batch."""
    topic, index = where
    for base_offset in logs.get(where, ()):
        with sound_batches(fs, f"{directory}/{topic}-{index}/{file_name(base_offset, LOG_SUFFIX)}", base_offset) as sound:
            for _, header, raw in sound:
                yield header, raw
            if not sound.is_whole:
                return
