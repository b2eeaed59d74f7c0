"""Reads the shop's topics with aiokafka, and counts missing and wrong records."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition

from ottla.demo.shop import INVOICES, PARTITIONS, PURCHASES, SHIPMENTS

POLL_MS = 500


@dataclass(slots=True)
class Findings:
    """Counts of records that read_committed consumers see, except ``aborted_hidden``."""

    purchases: int
    invoices: int
    shipments: int
    duplicates: int
    missing: int
    torn: int
    """Purchases with an invoice but no shipment, or with a shipment but no invoice."""
    aborted_hidden: int
    """Aborted records, which only read_uncommitted consumers see."""

    @property
    def proven(self) -> bool:
        return self.purchases > 0 and not (self.duplicates or self.missing or self.torn)


async def _read(bootstrap: str, topic: str, isolation: str) -> Counter[bytes]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest", fetch_max_wait_ms=100
    )
    await consumer.start()
    seen: Counter[bytes] = Counter()
    try:
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(p) < ends[p] for p in partitions]):
            for messages in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                seen.update(m.key for m in messages)
    finally:
        await consumer.stop()
    return seen


async def _audit(bootstrap: str) -> Findings:
    purchases = await _read(bootstrap, PURCHASES, "read_committed")
    invoices = await _read(bootstrap, INVOICES, "read_committed")
    shipments = await _read(bootstrap, SHIPMENTS, "read_committed")
    everything = [await _read(bootstrap, topic, "read_uncommitted") for topic in (INVOICES, SHIPMENTS)]
    return Findings(
        purchases=purchases.total(),
        invoices=invoices.total(),
        shipments=shipments.total(),
        duplicates=sum(n - 1 for seen in (invoices, shipments) for n in seen.values()),
        missing=sum(1 for key in purchases for seen in (invoices, shipments) if key not in seen),
        torn=len(invoices.keys() ^ shipments.keys()),
        aborted_hidden=sum(seen.total() for seen in everything) - invoices.total() - shipments.total(),
    )


def audit(bootstrap: str) -> Findings:
    return asyncio.run(_audit(bootstrap))
