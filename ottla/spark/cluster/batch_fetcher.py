"""Fetches all batches of a partition, including aborted batches and batches of open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.client.cluster import BrokerConnections
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.records import BatchHeader, batches
from ottla.spark.errors import PipelineError

FETCH_BYTES: Final = 8 << 20


def fetched(cluster: BrokerConnections, topic: str, partition: int, at: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Fetch the batches of offsets [``at``, ``end``). Raises `PipelineError`."""
    while at < end:
        wanted = FetchPartition(partition, fetch_offset=at, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=FETCH_BYTES, topics=[FetchTopic(topic, partitions=[wanted])])
        answer = cluster.ask_until_final(
            lambda: cluster.leader(topic, partition),
            request,
            lambda a: int(a.error_code or a.responses[0].partitions[0].error_code),
            f"reading {topic}-{partition}",
        )
        data = memoryview(answer.responses[0].partitions[0].records or b"")
        before = at
        for position, header in batches(data):
            if header.last_offset >= before and header.base_offset < end:
                yield header, data[position : position + header.size_bytes]
                at = header.next_offset
        if at == before:
            raise PipelineError(f"{topic}-{partition}: the broker returned no records at offset {at}, before the end at {end}")
