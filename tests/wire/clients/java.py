"""Adapter for the Java kafka-clients: their own classes, called through py4j's gateway."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from tests.wire.clients import BACKOFF_MAX_MS, Fenced, Message, TopicPartition, group_settings
from tools import kafka as oracle

_FENCED = ("ProducerFencedException", "InvalidProducerEpochException")


@cache
def gateway() -> Any:
    """Return the gateway to one JVM for the whole test run, without the C2 compiler. Raises `tools.kafka.Unavailable`."""
    options = ["-Xmx512M", *oracle.QUICK_JVM.options]
    port = launch_gateway(classpath=oracle.jars("clients"), java_path=oracle.java(), die_on_exit=True, javaopts=options)
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))


def _properties(settings: dict[str, Any]) -> Any:
    properties = gateway().jvm.java.util.Properties()
    for key, value in settings.items():
        properties.put(key, str(value).lower() if isinstance(value, bool) else str(value))
    return properties


def _duration(seconds: float) -> Any:
    return gateway().jvm.java.time.Duration.ofMillis(int(seconds * 1000))


class Consumer:
    def __init__(self, bootstrap: str, topics: list[str], group: str, committed: bool, protocol: str) -> None:
        deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        self.raw = gateway().jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
            _properties(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": group,
                    "isolation.level": "read_committed" if committed else "read_uncommitted",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    **group_settings(protocol),
                    "metadata.max.age.ms": 1000,
                    "reconnect.backoff.max.ms": BACKOFF_MAX_MS,
                    "key.deserializer": deserializer,
                    "value.deserializer": deserializer,
                }
            )
        )
        names = gateway().jvm.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        self.raw.subscribe(names)

    def poll(self, timeout_s: float) -> list[Message]:
        messages = []
        records = self.raw.poll(_duration(timeout_s)).iterator()
        while records.hasNext():
            r = records.next()
            key, value = r.key(), r.value()
            messages.append(
                Message(
                    r.topic(),
                    r.partition(),
                    r.offset(),
                    None if key is None else bytes(key),
                    None if value is None else bytes(value),
                )
            )
        return messages

    def assignment(self) -> set[TopicPartition]:
        return {(p.topic(), p.partition()) for p in self.raw.assignment()}

    def positions(self) -> dict[TopicPartition, int]:
        return {(p.topic(), p.partition()): self.raw.position(p) for p in self.raw.assignment()}

    def commit(self) -> None:
        self.raw.commitSync()

    def committed(self, topic: str, partition: int) -> int | None:
        where = gateway().jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        wanted = gateway().jvm.java.util.HashSet()
        wanted.add(where)
        committed = self.raw.committed(wanted).get(where)
        return None if committed is None else int(committed.offset())

    def rewind(self) -> dict[TopicPartition, int]:
        partitions = self.raw.assignment()
        committed = self.raw.committed(partitions)
        offsets: dict[TopicPartition, int] = {}
        for where in partitions:
            one = committed.get(where)
            if one is None:
                missing = gateway().jvm.java.util.HashSet()
                missing.add(where)
                self.raw.seekToBeginning(missing)
            else:
                self.raw.seek(where, int(one.offset()))
                offsets[where.topic(), where.partition()] = int(one.offset())
        return offsets

    def close(self) -> None:
        self.raw.close()


class Producer:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.raw = gateway().jvm.org.apache.kafka.clients.producer.KafkaProducer(_properties(settings))
        self._pending: list[Any] = []

    def init(self) -> None:
        self._guard(self.raw.initTransactions)

    def begin(self) -> None:
        self._pending = []
        self._guard(self.raw.beginTransaction)

    def send(self, topic: str, value: bytes, key: bytes | None = None, partition: int | None = None) -> None:
        record = gateway().jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, partition, key, value)
        self._pending.append(self._guard(lambda: self.raw.send(record)))

    def flush(self) -> None:
        self._guard(self.raw.flush)
        pending, self._pending = self._pending, []
        for future in pending:
            self._guard(future.get)

    def send_offsets(self, consumer: Consumer, offsets: dict[TopicPartition, int] | None = None) -> None:
        jvm = gateway().jvm
        sent = jvm.java.util.HashMap()
        for (topic, partition), offset in (consumer.positions() if offsets is None else offsets).items():
            where = jvm.org.apache.kafka.common.TopicPartition(topic, partition)
            sent.put(where, jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(offset))
        self._guard(lambda: self.raw.sendOffsetsToTransaction(sent, consumer.raw.groupMetadata()))

    def commit(self) -> None:
        self._guard(self.raw.commitTransaction)

    def abort(self) -> None:
        self._guard(self.raw.abortTransaction)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.raw.close(_duration(2))

    @staticmethod
    def _guard(call: Any) -> Any:
        try:
            return call()
        except Py4JJavaError as error:
            if any(name in str(error.java_exception.toString()) for name in _FENCED):
                raise Fenced(str(error.java_exception)) from error
            raise


class Java:
    name = "java"

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
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "compression.type": compression or "none",
            "enable.idempotence": idempotent,
            "request.timeout.ms": request_timeout_ms,
            "delivery.timeout.ms": max(120_000, request_timeout_ms + 10_000),
            "linger.ms": 5,
            "reconnect.backoff.max.ms": BACKOFF_MAX_MS,
            "key.serializer": serializer,
            "value.serializer": serializer,
        }
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": transaction_timeout_ms}
            settings["delivery.timeout.ms"] = max(transaction_timeout_ms, request_timeout_ms) + 10_000
            settings["max.block.ms"] = min(60_000, transaction_timeout_ms + 10_000)
        return Producer(settings)

    def consumer(self, bootstrap: str, topics: list[str], *, group: str, committed: bool = True) -> Consumer:
        return Consumer(bootstrap, topics, group, committed, self._protocol)
