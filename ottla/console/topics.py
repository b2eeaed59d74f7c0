"""The pages ``topics`` and ``topic``: the size of partitions, and the offsets up to which readers can read them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from ottla.client.topics import TopicListing
from ottla.console.page_request import PARTITIONS_OF_A_TURN, Asked, refusal
from ottla.console.paging import matching, part_of
from ottla.control.command import CommandRefused, Steered
from ottla.protocol.errors import KafkaError
from ottla.protocol.topic_partition import MAX_PARTITION, TopicPartition
from ottla.storage.log import Log

RANGES_SHOWN: Final = 100
"""Maximum number of a partition's newest aborted transactions in its ribbon."""
MARKERS_SHOWN: Final = 100
"""Maximum number of a partition's newest markers in its ribbon."""
MARKERS_SEARCHED: Final = 2_000
"""Number of a partition's newest offsets that are searched for markers."""


def topics(asked: Asked) -> dict[str, Any]:
    listings = sorted(asked.client.topics(internal=True), key=lambda topic: (topic.internal, topic.name))
    part = part_of(matching(listings, asked, lambda topic: topic.name), asked)
    return {"part": msgspec.structs.replace(part, rows=_rows(asked, part.rows))}


def _rows(asked: Asked, listings: Sequence[TopicListing]) -> list[dict[str, Any]]:
    places = [(topic.name, index) for topic in listings for index in range(topic.partitions)]
    sizes = iter(asked.in_turns(places, _sizes, PARTITIONS_OF_A_TURN))
    rows = []
    for topic in listings:
        own = list(islice(sizes, topic.partitions))
        rows.append(
            {
                "name": topic.name,
                "partitions": topic.partitions,
                "replicas": topic.replicas,
                "is_internal": topic.internal,
                "offsets": sum(offsets for offsets, _, _ in own),
                "waiting": sum(waiting for _, waiting, _ in own),
                "size_bytes": sum(size_bytes for _, _, size_bytes in own),
            }
        )
    return rows


def _sizes(steered: Steered, place: TopicPartition) -> tuple[int, int, int]:
    """Return the number of offsets of a partition, the number of those after its last stable offset, and its bytes."""
    partition = steered.serving.broker.partitions.known(*place)
    if partition is None:
        return 0, 0, 0
    log = partition.log
    return log.high_watermark - log.log_start_offset, log.high_watermark - log.last_stable_offset, log.size_bytes


def topic(asked: Asked) -> dict[str, Any]:
    """Return the partitions of one topic, with the data of their ribbons."""
    name = asked.required("name")
    part = part_of(sorted(asked.client.brokers.partitions(name)), asked)
    # A turn reads the files of one partition only, because it may take the event loop some ms.
    rows = asked.in_turns(part.rows, lambda steered, index: _partition(steered, name, index), 1)
    return {"name": name, "part": msgspec.structs.replace(part, rows=rows)}


def _partition(steered: Steered, topic: str, index: int) -> dict[str, Any]:
    partition = steered.serving.broker.partitions.known(topic, index)
    if partition is None:
        return {"partition": index, "problem": "this broker has no replica of it"}
    row = {"partition": index, "leader": partition.leader_id, "leader_epoch": partition.log.leader_epoch}
    try:
        return {**row, **partition.look_up(ribbon)}
    except KafkaError as error:
        return {**row, "problem": str(refusal(error))}


def ribbon(log: Log) -> dict[str, Any]:
    """Return the data of a partition's ribbon."""
    newest = islice((one for segment in reversed(log.segments) for one in reversed(segment.txn_index)), RANGES_SHOWN)
    aborted = [one for one in newest if one.last_offset >= log.log_start_offset]
    return {
        "log_start_offset": log.log_start_offset,
        "last_stable_offset": log.last_stable_offset,
        "high_watermark": log.high_watermark,
        "log_end_offset": log.log_end_offset,
        "aborted": [{"first_offset": one.first_offset, "last_offset": one.last_offset} for one in reversed(aborted)],
        "markers": _markers(log),
        "open": list(islice(log.producers.open_txns.values(), RANGES_SHOWN)),
    }


def _markers(log: Log) -> list[int]:
    """Return the offsets of the newest control batches."""
    first = max(log.log_start_offset, log.log_end_offset - MARKERS_SEARCHED)
    if not log.producers.has_any or first >= log.log_end_offset:
        # A producer with a marker here is known until it expires.
        return []
    offsets: list[int] = []
    for at in range(log.segment_at(first), len(log.segments)):
        segment = log.segments[at]
        place = segment.position_of(first)
        if place is not None:
            offsets += [header.base_offset for _, header in segment.headers(place[0]) if header.is_control]
    return offsets[-MARKERS_SHOWN:]


def partition_of(asked: Asked) -> int:
    """Return the partition in a query. Raises `CommandRefused`."""
    index = asked.number("partition")
    if index > MAX_PARTITION:
        raise CommandRefused(400, f"partition must be at most {MAX_PARTITION:,}")
    return index
