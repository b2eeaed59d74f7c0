"""Writes after the last fault: each transactional id writes one more transaction to all partitions.

This also ends transactions that an unclean election has left open. If the marker of a transaction was lost, the transaction stays
open in the partition until its producer ends its next transaction there, as in Apache Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer

from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.history import Attempt, History, ProducerSession, TriedRecord
from tests.wire.clients import BACKOFF_MAX_MS

TIMEOUT_S = 60
TRIES = 3


def go_on(bootstrap: str, ids: Sequence[str], partitions: Sequence[TopicPartition], history: History) -> list[str]:
    """Write one transaction per transactional id and add it to ``history``. Returns a finding for each id that fails."""
    return [line for name in ids for line in _transact(bootstrap, name, partitions, history)]


def _transact(bootstrap: str, name: str, partitions: Sequence[TopicPartition], history: History) -> list[str]:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "transactional.id": name,
        "reconnect.backoff.max.ms": BACKOFF_MAX_MS,
        "log_level": 0,
    }
    error: KafkaException | None = None
    for attempt in range(1, TRIES + 1):
        actor, failures = f"{name}#last-{attempt}", list[Any]()
        records = [TriedRecord(where, f"{actor}/1/1/{at}") for at, where in enumerate(partitions)]
        producer = Producer(settings)
        try:
            producer.init_transactions(TIMEOUT_S)
            history.sessions.append(ProducerSession(name, actor, 1, time.monotonic()))
            written = Attempt(name, actor, 1, 1, records)
            history.attempts.append(written)
            producer.begin_transaction()
            for record in records:
                topic, index = record.where
                producer.produce(
                    topic, record.value.encode(), partition=index, on_delivery=lambda e, _, f=failures: e and f.append(e)
                )
            written.commit_asked_s = time.monotonic()
            producer.commit_transaction(TIMEOUT_S)
        except KafkaException as refused:
            error = refused
            continue
        written.was_answered_committed, written.ended_s = not failures, time.monotonic()
        return [f"{name} cannot go on: {failures[0]}"] if failures else []
    return [f"{name} cannot go on: {error}"]
