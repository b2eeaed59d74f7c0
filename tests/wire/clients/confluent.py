"""Adapter for confluent-kafka (librdkafka)."""

from __future__ import annotations

import contextlib
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka import Consumer as CConsumer
from confluent_kafka import Producer as CProducer
from confluent_kafka import TopicPartition as CTopicPartition

from tests.support import oracle
from tests.wire.clients import BACKOFF_MAX_MS, Fenced, Message, TopicPartition, group_settings

CALL_TIMEOUT_S = 60
_RECONNECTS: dict[str, Any] = {"reconnect.backoff.max.ms": BACKOFF_MAX_MS, "metadata.recovery.strategy": "none"}
"""librdkafka 2.16 forgets all brokers if none of them is reachable, and starts again from the bootstrap servers. Its cached group
coordinator is then invalid, and `send_offsets_to_transaction` waits for it forever."""
_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


def committed_offsets(consumer: CConsumer, partitions: list[CTopicPartition], timeout_s: float) -> list[CTopicPartition]:
    """Return the group's committed offsets. Retries, because librdkafka returns an error if the coordinator has moved."""

    def look() -> list[CTopicPartition] | KafkaError:
        try:
            return list(consumer.committed(partitions, timeout_s))
        except KafkaException as error:
            if error.args[0].code() not in oracle.NOT_READY:
                raise
            return error.args[0]

    return oracle.wait_for(
        "the group's coordinator knows its commits", look, lambda seen: isinstance(seen, list), limit_s=timeout_s
    )


class Consumer:
    def __init__(self, bootstrap: str, topics: list[str], group: str, committed: bool, protocol: str) -> None:
        self.raw = CConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **group_settings(protocol),
                "fetch.wait.max.ms": 100,
                "topic.metadata.refresh.interval.ms": 1_000,
                **_RECONNECTS,
                "log_level": 0,
            }
        )
        self.raw.subscribe(topics)

    def poll(self, timeout_s: float) -> list[Message]:
        messages = []
        for m in self.raw.consume(500, timeout_s):
            if m.error() is None:
                messages.append(Message(m.topic(), m.partition(), m.offset(), m.key(), m.value()))
        return messages

    def assignment(self) -> set[TopicPartition]:
        return {(p.topic, p.partition) for p in self.raw.assignment()}

    def positions(self) -> dict[TopicPartition, int]:
        positions = self.raw.position(self.raw.assignment())
        return {(p.topic, p.partition): p.offset for p in positions if p.offset >= 0}

    def commit(self) -> None:
        self.raw.commit(asynchronous=False)

    def committed(self, topic: str, partition: int) -> int | None:
        (committed,) = committed_offsets(self.raw, [CTopicPartition(topic, partition)], CALL_TIMEOUT_S)
        return int(committed.offset) if committed.offset >= 0 else None

    def rewind(self) -> dict[TopicPartition, int]:
        committed = committed_offsets(self.raw, self.raw.assignment(), CALL_TIMEOUT_S)
        for p in committed:
            self.raw.seek(CTopicPartition(p.topic, p.partition, p.offset if p.offset >= 0 else OFFSET_BEGINNING))
        return {(p.topic, p.partition): p.offset for p in committed if p.offset >= 0}

    def close(self) -> None:
        self.raw.close()


class Producer:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.raw = CProducer(settings)
        self._errors: list[KafkaError] = []

    def init(self) -> None:
        self._guard(lambda: self.raw.init_transactions(CALL_TIMEOUT_S))

    def begin(self) -> None:
        # Delivery errors of the previous, aborted transaction may arrive late and do not concern this transaction.
        self._errors = []
        self._guard(self.raw.begin_transaction)

    def send(self, topic: str, value: bytes, key: bytes | None = None, partition: int | None = None) -> None:
        def delivered(error: KafkaError | None, _: Any, errors: list[KafkaError] = self._errors) -> None:
            if error is not None:
                errors.append(error)

        where = {} if partition is None else {"partition": partition}
        self._guard(lambda: self.raw.produce(topic, value, key, on_delivery=delivered, **where))

    def flush(self) -> None:
        try:
            left = self._guard(lambda: self.raw.flush(CALL_TIMEOUT_S))
        except SystemError:
            # The Python binding raises SystemError if a fatal error arrives during a flush. The next call reports the fatal error.
            left = 0
        if self._errors:
            first = self._errors[0]
            self._errors.clear()
            self._guard(lambda: _raise(first))
        if left:
            raise TimeoutError(f"{left} messages not delivered")

    def send_offsets(self, consumer: Consumer, offsets: dict[TopicPartition, int] | None = None) -> None:
        positions = consumer.positions() if offsets is None else offsets
        sent = [CTopicPartition(t, p, o) for (t, p), o in positions.items()]
        metadata = consumer.raw.consumer_group_metadata()
        self._guard(lambda: self.raw.send_offsets_to_transaction(sent, metadata, CALL_TIMEOUT_S))

    def commit(self) -> None:
        self._guard(lambda: self.raw.commit_transaction(CALL_TIMEOUT_S))

    def abort(self) -> None:
        self._guard(lambda: self.raw.abort_transaction(CALL_TIMEOUT_S))

    def close(self) -> None:
        self.raw.purge()
        # If the producer is fenced, flush raises, and nothing is left to do.
        with contextlib.suppress(KafkaException):
            self.raw.flush(1)

    @staticmethod
    def _guard(call: Any) -> Any:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() in _FENCED:
                raise Fenced(str(error)) from error
            raise


def _raise(error: KafkaError) -> None:
    raise KafkaException(error)


class Confluent:
    name = "confluent-kafka"

    def __init__(self, protocol: str = "classic") -> None:
        self._protocol = protocol

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
            "bootstrap.servers": bootstrap,
            "compression.type": compression or "none",
            "enable.idempotence": idempotent,
            "socket.timeout.ms": request_timeout_ms,
            "linger.ms": 5,
            **_RECONNECTS,
            "log_level": 0,
        }
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": transaction_timeout_ms}
            settings["socket.timeout.ms"] = min(request_timeout_ms, transaction_timeout_ms)
        return Producer(settings)

    def consumer(self, bootstrap: str, topics: list[str], *, group: str, committed: bool = True) -> Consumer:
        return Consumer(bootstrap, topics, group, committed, self._protocol)
