"""After a crash: which transactions lost a part, by what recovery has read anyway, so that a start may afford it.

That is the coordinators' logs, and of each partition what lies above the last producer snapshot below its recovery point. What was
lost further down, which is on the disk since the last checkpoint or roll, only `operations.directory_audit` sees.
"""

from __future__ import annotations

import structlog
from msgspec import to_builtins

from ottla.broker.partitions import Partitions
from ottla.coordinator.transaction.metadata import TopicPartition
from ottla.operations.audit import DecisionAudit, PartitionView, TornTransaction
from ottla.operations.metadata_log import topics_born
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.storage.log import Log
from ottla.storage.reading import all_batches
from ottla.storage.transaction_history import TransactionHistory

MAX_TORN_LOGGED = 100
"""Torn transactions that are logged one by one."""

log = structlog.get_logger("broker")


def find_torn_transactions(
    partitions: Partitions, metadata_log: Log, read: dict[TopicPartition, TransactionHistory], forgotten_ms: int
) -> list[TornTransaction]:
    """What a crash has torn. ``read`` is what recovery has read of each partition; nothing was written since the start.

    A partition has forgotten producers that it last heard of before ``forgotten_ms``. Partitions that are offline are left out,
    because their files may still be mended.
    """
    born_ms = topics_born(all_batches(metadata_log))
    views: dict[TopicPartition, PartitionView] = {}
    for partition in partitions:
        partition_log = partition.log
        where = (partition_log.topic, partition_log.partition)
        history = read.get(where)
        if history is None:
            # A partition that is not on the disk has lost all that it held, or never held anything.
            history = TransactionHistory(partition_log.producers, 0, is_contiguous=True)
        if partition_log.topic != TRANSACTION_TOPIC and not partition_log.is_offline:
            views[where] = PartitionView(history, born_ms.get(partition_log.topic))
    audit = DecisionAudit(views.get, forgotten_ms)
    is_known = True
    for partition in partitions:
        if partition.log.topic == TRANSACTION_TOPIC:
            try:
                partition.look_up(lambda log: audit.read(all_batches(log)))
            except KafkaError:
                is_known = False
    # Where a coordinator's log is offline nobody can say which open transactions it knows of.
    return [torn for torn in audit.torn_transactions(views.items()) if is_known or torn.transactional_id is not None]


def log_torn_transactions(torn: list[TornTransaction]) -> None:
    """A line for each, and one for how many there are where they are too many."""
    for lost in torn[:MAX_TORN_LOGGED]:
        log.warning("transaction_torn", **to_builtins(lost))
    if len(torn) > MAX_TORN_LOGGED:
        log.warning("transactions_torn", count=len(torn), hint="ottla audit names all")
