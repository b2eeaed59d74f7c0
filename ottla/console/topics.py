"""The pages ``topics`` and ``topic``: sizes and offsets of partitions."""

from __future__ import annotations

from typing import Any

import msgspec

from ottla.broker.view.partitions import PartitionDetail
from ottla.console.page_request import Asked
from ottla.console.paging import matching, part_of


def topics(asked: Asked) -> dict[str, Any]:
    listings = sorted(asked.view.topics(), key=lambda topic: (topic.is_internal, topic.name))
    part = part_of(matching(listings, asked, lambda topic: topic.name), asked)
    rows = [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "replicas": topic.replicas,
            "is_internal": topic.is_internal,
            **msgspec.to_builtins(size),
        }
        for topic, size in zip(part.rows, asked.view.sizes(part.rows), strict=True)
    ]
    return {"part": msgspec.structs.replace(part, rows=rows)}


def topic(asked: Asked) -> dict[str, Any]:
    """Return the partitions of one topic. The page draws the offsets of each partition as a ribbon."""
    name = asked.required("name")
    part = part_of(range(asked.view.topic(name).partitions), asked)
    rows = [_row(partition) for partition in asked.view.partitions(name, part.rows)]
    return {"name": name, "part": msgspec.structs.replace(part, rows=rows)}


def _row(partition: PartitionDetail) -> dict[str, Any]:
    row = {"partition": partition.partition, "leader": partition.leader, "leader_epoch": partition.leader_epoch}
    if partition.detail is None:
        return {**row, "problem": partition.problem}
    return {**row, **msgspec.to_builtins(partition.detail)}
