"""Finds, in the data that recovery reads, transactions that lost records or markers in a crash.

Recovery reads the coordinators' logs and, of each partition, the batches after the last producer snapshot below the recovery
point. The audit reads nothing else, so it is quick. Only `operations.directory_audit` finds losses in older
batches.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from msgspec import to_builtins

from ottla.broker.partitions.partitions import Partitions
from ottla.operations.audit import DecisionAudit, PartitionView, TornTransaction
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.reading import all_batches
from ottla.storage.transaction_history import TransactionHistory

MAX_TORN_LOGGED = 100
"""Maximum number of transactions with lost records or markers that are logged one by one."""

log = structlog.get_logger("broker")


def find_torn_transactions(
    partitions: Partitions, born_ms: Mapping[str, int], read: Mapping[TopicPartition, TransactionHistory], forgotten_ms: int
) -> list[TornTransaction]:
    """Return torn transactions: those that lost records or markers in a crash. Call this before the first append after the start.

    ``born_ms`` has the creation time of each topic, if known. ``read`` has the transactions that recovery read in each partition.
    Partitions have forgotten producers whose last write was before ``forgotten_ms``. Offline partitions are skipped, because their
    files may still be restored.
    """
    views: dict[TopicPartition, PartitionView] = {}
    for partition in partitions:
        partition_log = partition.log
        where = (partition_log.topic, partition_log.partition)
        history = read.get(where)
        if history is None:
            # This log was lost or never existed, so the starting broker has created it.
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
    # A coordinator whose log is offline may know open transactions that no other coordinator knows, so these are not reported.
    return [torn for torn in audit.torn_transactions(views.items()) if is_known or torn.transactional_id is not None]


def log_torn_transactions(torn: list[TornTransaction]) -> None:
    """Log up to `MAX_TORN_LOGGED` torn transactions one by one, and their total number if there are more."""
    for lost in torn[:MAX_TORN_LOGGED]:
        log.warning("transaction_torn", **to_builtins(lost))
    if len(torn) > MAX_TORN_LOGGED:
        log.warning("transactions_torn", count=len(torn), hint="'ottla audit' lists all incomplete transactions")
