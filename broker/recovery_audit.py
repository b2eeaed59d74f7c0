"""After a crash: which transactions lost a record or a marker, told from what the broker knows once it has loaded.

`broker.audit` reads a whole directory through; this looks at the coordinator's log and at the state of the producers, so that
a start after a crash may afford it. Apache Kafka says nothing of such losses, which a power cut may bring about under
``durability=process``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from coordinator.cluster import TRANSACTION_TOPIC
from coordinator.result import LogRecord
from coordinator.transaction.metadata import TopicPartition, TxnMetadata, from_record
from coordinator.transaction.states import PREPARED, TxnState
from protocol.errors import DecodeError
from storage.log import Log
from storage.producer_state import TV2
from storage.reading import records_of

if TYPE_CHECKING:
    from broker.broker import Broker


class Lost(msgspec.Struct, frozen=True):
    """A partition that lacks its part of a transaction. ``transactional_id`` is None where no coordinator knows of it."""

    topic: str
    partition: int
    producer_id: int
    reason: str
    transactional_id: str | None = None


def look(broker: Broker) -> list[Lost]:
    """What a crash has torn; the coordinators are loaded, and nothing was written since the start."""
    found: list[Lost] = []
    since_ms = broker.env.now_ms() - broker.settings.producer_id_expiration_ms
    for partition in broker.partitions:
        if partition.log.topic == TRANSACTION_TOPIC:
            for decided in _decisions(partition.log):
                if decided.update_ms > since_ms:
                    found += _unmarked(broker, decided)
    for shard in broker.transactions.shards():
        for decided in shard.prepared():
            found += _unwritten(broker, decided)
    return found + list(_ahead(broker)) + list(_hanging(broker))


def _decisions(log: Log) -> Iterator[TxnMetadata]:
    """Prepare records that an outcome followed."""
    newest: dict[str, TxnMetadata | None] = {}
    for segment in log.segments:
        for _, header, raw in segment.scan():
            for record in () if header.is_control else records_of(raw, header):
                try:
                    transactional_id, metadata = from_record(LogRecord(record.key, record.value))
                except DecodeError:
                    continue
                before = newest.get(transactional_id)
                newest[transactional_id] = metadata
                if before is not None and before.state in PREPARED and (metadata is None or metadata.state not in PREPARED):
                    yield before


def _behind(broker: Broker, decided: TxnMetadata) -> Iterator[Log]:
    """Logs of a transaction's partitions that have not seen the epoch of its marker."""
    for topic, index in sorted(decided.partitions):
        partition = broker.partitions.find(topic, index)
        if partition is None:
            continue
        log = partition.log
        entry = log.producers.entries.get(decided.producer_id)
        if entry is None:
            # Retention may have taken it, or the topic was made again since.
            is_behind = log.log_start_offset == 0 and not _is_younger(log, decided)
        else:
            is_behind = entry.epoch < decided.producer_epoch
        if is_behind:
            yield log


def _is_younger(log: Log, decided: TxnMetadata) -> bool:
    """Whether all of a log was written after the decision: another topic of that name was meant."""
    return bool(log.segments) and log.segments[0].first_timestamp_ms > decided.update_ms


def _unmarked(broker: Broker, decided: TxnMetadata) -> Iterator[Lost]:
    word = "committed" if decided.state is TxnState.PREPARE_COMMIT else "aborted"
    for log in _behind(broker, decided):
        reason = f"it was {word} at epoch {decided.producer_epoch}, and the partition has no marker of it"
        yield Lost(log.topic, log.partition, decided.producer_id, reason, decided.transactional_id)


def _unwritten(broker: Broker, decided: TxnMetadata) -> Iterator[Lost]:
    """A decision that is carried out now. By transaction version 1 a partition may belong to it without a record."""
    if decided.state is not TxnState.PREPARE_COMMIT or decided.client_version < TV2:
        return
    for log in _behind(broker, decided):
        if decided.producer_id not in log.producers.open_txns:
            reason = f"it commits at epoch {decided.producer_epoch}, and the partition has no record of it"
            yield Lost(log.topic, log.partition, decided.producer_id, reason, decided.transactional_id)


def _ahead(broker: Broker) -> Iterator[Lost]:
    """Partitions that know a later epoch than the coordinator, which gives them out: its own log has lost the decision."""
    by_producer = {m.producer_id: m for shard in broker.transactions.shards() for m in shard.ids.values()}
    for partition in broker.partitions:
        for entry in partition.log.producers.entries.values():
            metadata = by_producer.get(entry.producer_id)
            if metadata is not None and entry.epoch > metadata.producer_epoch:
                reason = f"the partition has seen epoch {entry.epoch}, and the coordinator only {metadata.producer_epoch}"
                yield Lost(partition.log.topic, partition.log.partition, entry.producer_id, reason, metadata.transactional_id)


def _hanging(broker: Broker) -> Iterator[Lost]:
    """Open transactions that no coordinator knows of: their decision is there without a marker, or is not there at all."""
    known: set[tuple[int, TopicPartition]] = set()
    for shard in broker.transactions.shards():
        for metadata in shard.ids.values():
            if metadata.state is TxnState.ONGOING or metadata.state in PREPARED:
                known |= {(metadata.producer_id, where) for where in metadata.partitions}
    for partition in broker.partitions:
        log = partition.log
        for producer_id, offset in log.producers.open_txns.items():
            if (producer_id, (log.topic, log.partition)) not in known:
                yield Lost(
                    log.topic, log.partition, producer_id, f"it is open since offset {offset}, and no coordinator knows of it"
                )
