"""Reads a topic's log batch by batch, and counts the transactions. Every offset has a record or a marker, or is unexplained."""

from __future__ import annotations

import msgspec

from ottla.client.admin.offsets import ranges
from ottla.client.security.client_config import Connecting
from ottla.protocol.markers import read_marker
from ottla.protocol.records import BatchHeader
from ottla.spark.cluster.batch_fetcher import fetched
from ottla.spark.cluster.client import cluster_client


class LedgerEntry(msgspec.Struct):
    """The number of records of one transaction in a partition. ``outcome`` is empty while the transaction is open."""

    producer_id: int
    epoch: int
    first_offset: int
    records: int = 0
    outcome: str = ""


class Ledger(msgspec.Struct):
    """The transactions of one partition. ``plain`` counts records outside of transactions, ``unexplained`` offsets that have
    neither a record nor a marker."""

    topic: str
    partition: int
    start: int
    end: int
    plain: int = 0
    markers: int = 0
    unexplained: int = 0
    entries: list[LedgerEntry] = []

    def records(self, outcome: str) -> int:
        return sum(entry.records for entry in self.entries if entry.outcome == outcome)

    @property
    def committed(self) -> int:
        return self.plain + self.records("commit")


def ledger(bootstrap: str, topic: str, partition: int) -> Ledger:
    """Fetch the whole partition, including aborted and open transactions. Raises `PipelineError`."""
    cluster = cluster_client(Connecting(bootstrap))
    try:
        start, end = ranges(cluster, topic)[partition]
        partition_ledger = Ledger(topic, partition, start, end)
        is_open: dict[int, LedgerEntry] = {}
        at = start
        for header, raw in fetched(cluster, topic, partition, start, end):
            partition_ledger.unexplained += max(0, header.base_offset - at)
            at = header.next_offset
            partition_ledger.unexplained += header.last_offset_delta + 1 - header.record_count
            _note(partition_ledger, is_open, header, raw)
        partition_ledger.unexplained += max(0, end - at)
        return partition_ledger
    finally:
        cluster.close()


def _note(partition_ledger: Ledger, is_open: dict[int, LedgerEntry], header: BatchHeader, raw: memoryview) -> None:
    if header.is_control:
        partition_ledger.markers += header.record_count
        marker = read_marker(raw, header)
        entry = is_open.pop(header.producer_id, None)
        if marker is not None and entry is not None:
            entry.outcome = "commit" if marker.commit else "abort"
    elif header.is_transactional:
        entry = is_open.get(header.producer_id)
        if entry is None:
            entry = is_open[header.producer_id] = LedgerEntry(header.producer_id, header.producer_epoch, header.base_offset)
            partition_ledger.entries.append(entry)
        entry.records += header.record_count
    else:
        partition_ledger.plain += header.record_count


def torn(ledgers: list[Ledger]) -> list[str]:
    """Find transactions that have different outcomes in different partitions: committed, aborted, or still open.

    A transaction is identified by producer id and epoch, as in transaction version 2. With older versions an epoch may have several
    transactions, which are not reported.
    """
    outcomes: dict[tuple[int, int], set[str]] = {}
    repeated: set[tuple[int, int]] = set()
    for partition_ledger in ledgers:
        seen: set[tuple[int, int]] = set()
        for entry in partition_ledger.entries:
            key = (entry.producer_id, entry.epoch)
            if key in seen:
                repeated.add(key)
            seen.add(key)
            outcomes.setdefault(key, set()).add(entry.outcome)
    return [
        f"producer {pid} epoch {epoch}"
        for (pid, epoch), transaction_outcomes in outcomes.items()
        if len(transaction_outcomes) > 1 and (pid, epoch) not in repeated
    ]
