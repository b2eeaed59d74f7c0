"""Adapter for kafka-python."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KTopicPartition
from kafka.errors import InvalidProducerEpochError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tests.wire.clients import BACKOFF_MAX_MS, Fenced, Message, TopicPartition

SEND_TIMEOUT_S = 60
CALL_TIMEOUT_S = 20
"""Time limit of transactional calls: kafka-python 3.0 waits forever if the coordinator refuses the connection."""
CLOSE_TIMEOUT_S = 2
UNASSIGNED_S = 4


class Consumer:
    def __init__(self, bootstrap: str, topics: list[str], group: str, committed: bool) -> None:
        self.raw = KafkaConsumer(
            *topics,
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level="read_committed" if committed else "read_uncommitted",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=1_000,
            reconnect_backoff_max_ms=BACKOFF_MAX_MS,
        )
        self._topics = topics
        self._assigned_at = time.monotonic()

    def _mend(self) -> None:
        """Rejoin the group if the consumer has no assignment for too long.

        A group leader of kafka-python 3.0 assigns no partitions while it does not know the topic, and may not notice when it
        learns of the topic.
        """
        now = time.monotonic()
        if self.raw.assignment():
            self._assigned_at = now
        elif now - self._assigned_at > UNASSIGNED_S:
            self._assigned_at = now
            self.raw.unsubscribe()
            self.raw.subscribe(self._topics)

    def poll(self, timeout_s: float) -> list[Message]:
        self._mend()
        by_partition = self.raw.poll(timeout_ms=int(timeout_s * 1000))
        return [Message(m.topic, m.partition, m.offset, m.key, m.value) for messages in by_partition.values() for m in messages]

    def assignment(self) -> set[TopicPartition]:
        return {(p.topic, p.partition) for p in self.raw.assignment()}

    def positions(self) -> dict[TopicPartition, int]:
        return {(p.topic, p.partition): self.raw.position(p) for p in self.raw.assignment()}

    def commit(self) -> None:
        self.raw.commit()

    def committed(self, topic: str, partition: int) -> int | None:
        offset = self.raw.committed(KTopicPartition(topic, partition))
        return None if offset is None else int(offset)

    def rewind(self) -> dict[TopicPartition, int]:
        offsets = {p: self.raw.committed(p) for p in self.raw.assignment()}
        for partition, offset in offsets.items():
            if offset is None:
                self.raw.seek_to_beginning(partition)
            else:
                self.raw.seek(partition, offset)
        return {(p.topic, p.partition): offset for p, offset in offsets.items() if offset is not None}

    def close(self) -> None:
        self.raw.close(autocommit=False)


class Producer:
    def __init__(self, **settings: Any) -> None:
        self.raw = KafkaProducer(**settings)
        self._pending: list[Any] = []

    def init(self) -> None:
        self.raw.init_transactions()

    def begin(self) -> None:
        self._pending = []
        self._guard(self.raw.begin_transaction)

    def send(self, topic: str, value: bytes, key: bytes | None = None, partition: int | None = None) -> None:
        self._pending.append(self._guard(lambda: self.raw.send(topic, value, key=key, partition=partition)))

    def flush(self) -> None:
        self._guard(lambda: self.raw.flush(timeout=SEND_TIMEOUT_S))
        pending, self._pending = self._pending, []
        for future in pending:
            self._guard(lambda future=future: future.get(SEND_TIMEOUT_S))

    def send_offsets(self, consumer: Any, offsets: dict[TopicPartition, int] | None = None) -> None:
        positions = consumer.positions() if offsets is None else offsets
        sent = {KTopicPartition(*p): OffsetAndMetadata(offset, "", -1) for p, offset in positions.items()}
        self._in_time(lambda: self.raw.send_offsets_to_transaction(sent, consumer.raw.group_metadata()))

    def commit(self) -> None:
        # Flush first: kafka-python 3.0 reports success for a transaction whose records all timed out before they were sent.
        self.flush()
        self._in_time(self.raw.commit_transaction)

    def abort(self) -> None:
        self._in_time(self.raw.abort_transaction)

    def close(self) -> None:
        try:
            self.raw.close(timeout=CLOSE_TIMEOUT_S)
        except Exception:
            # kafka-python 3.0 cannot close a producer whose batches are not acknowledged in time, and its thread keeps running.
            self.raw._sender.force_close()
            with contextlib.suppress(Exception):
                self.raw.close(timeout=CLOSE_TIMEOUT_S)

    def _in_time(self, call: Any) -> None:
        """Run the call in a thread. Raises TimeoutError after the time limit; the thread then ends with the process."""
        done: Future[None] = Future()

        def run() -> None:
            try:
                done.set_result(self._guard(call))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        done.result(CALL_TIMEOUT_S)

    @staticmethod
    def _guard(call: Any) -> Any:
        try:
            return call()
        except (ProducerFencedError, InvalidProducerEpochError) as error:
            raise Fenced(str(error)) from error


class KafkaPython:
    name = "kafka-python"

    def producer(
        self,
        bootstrap: str,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        compression: str | None = None,
        idempotent: bool = True,
        request_timeout_ms: int = 10_000,
    ) -> Producer:
        settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "compression_type": compression,
            "enable_idempotence": idempotent,
            "request_timeout_ms": request_timeout_ms,
            "linger_ms": 5,
            "reconnect_backoff_max_ms": BACKOFF_MAX_MS,
        }
        if transactional_id is not None:
            settings |= {"transactional_id": transactional_id, "transaction_timeout_ms": transaction_timeout_ms}
            settings["delivery_timeout_ms"] = max(transaction_timeout_ms, request_timeout_ms) + 1_000
            settings["max_block_ms"] = min(60_000, transaction_timeout_ms + 10_000)
        return Producer(**settings)

    def consumer(self, bootstrap: str, topics: list[str], *, group: str, committed: bool = True) -> Consumer:
        return Consumer(bootstrap, topics, group, committed)
