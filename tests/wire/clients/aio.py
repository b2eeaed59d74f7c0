"""Adapter for aiokafka, which runs on an event loop in its own thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as ATopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

from tests.wire.clients import Fenced, Message, TopicPartition

CALL_TIMEOUT_S = 60
STOP_TIMEOUT_S = 5


class Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        return not self.loop.is_closed()

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(CALL_TIMEOUT_S)
        except (ProducerFenced, InvalidProducerEpoch) as error:
            raise Fenced(str(error)) from error

    def end(self, client: AIOKafkaClient, stop: Coroutine[Any, Any, None]) -> None:
        """Stop a producer or consumer, and then this event loop.

        aiokafka closes its connections at the end of ``stop()``. It does not close them while it waits for a stopped broker, or if
        a lost connection cancels that wait. Unclosed connections would cause a ResourceWarning in a later test.
        """

        async def end() -> None:
            with contextlib.suppress(asyncio.CancelledError, TimeoutError, KafkaError):
                await asyncio.wait_for(stop, STOP_TIMEOUT_S)
            await client.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        try:
            self.call(end())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(60)
            self.loop.close()


class Consumer:
    def __init__(self, loop: Loop, bootstrap: str, topics: list[str], group: str, committed: bool) -> None:
        self._loop = loop
        self.group = group

        async def make() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                *topics,
                bootstrap_servers=bootstrap,
                group_id=group,
                isolation_level="read_committed" if committed else "read_uncommitted",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6_000,
                heartbeat_interval_ms=500,
                metadata_max_age_ms=1_000,
                fetch_max_wait_ms=100,
            )
            await consumer.start()
            return consumer

        self.raw = loop.call(make())

    def poll(self, timeout_s: float) -> list[Message]:
        by_partition = self._loop.call(self.raw.getmany(timeout_ms=int(timeout_s * 1000)))
        return [Message(m.topic, m.partition, m.offset, m.key, m.value) for messages in by_partition.values() for m in messages]

    def assignment(self) -> set[TopicPartition]:
        return {(p.topic, p.partition) for p in self.raw.assignment()}

    def positions(self) -> dict[TopicPartition, int]:
        async def read() -> dict[TopicPartition, int]:
            return {(p.topic, p.partition): await self.raw.position(p) for p in self.raw.assignment()}

        positions: dict[TopicPartition, int] = self._loop.call(read())
        return positions

    def commit(self) -> None:
        self._loop.call(self.raw.commit())

    def committed(self, topic: str, partition: int) -> int | None:
        offset = self._loop.call(self.raw.committed(ATopicPartition(topic, partition)))
        return None if offset is None else int(offset)

    def rewind(self) -> dict[TopicPartition, int]:
        async def rewind() -> dict[TopicPartition, int]:
            if not self.raw.assignment():
                return {}
            offsets = {p: await self.raw.committed(p) for p in self.raw.assignment()}
            for partition, offset in offsets.items():
                if offset is None:
                    await self.raw.seek_to_beginning(partition)
                else:
                    self.raw.seek(partition, offset)
            return {(p.topic, p.partition): offset for p, offset in offsets.items() if offset is not None}

        offsets: dict[TopicPartition, int] = self._loop.call(rewind())
        return offsets

    def close(self) -> None:
        if self._loop.is_open:
            self._loop.end(self.raw._client, self.raw.stop())


class Producer:
    def __init__(self, loop: Loop, **settings: Any) -> None:
        self._loop = loop
        self._pending: list[Any] = []

        async def make() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(**settings)
            if settings.get("transactional_id") is None:
                await producer.start()
            return producer

        self.raw = loop.call(make())

    def init(self) -> None:
        # aiokafka requests its producer id in start().
        self._loop.call(self.raw.start())

    def begin(self) -> None:
        self._pending = []
        self._loop.call(self.raw.begin_transaction())

    def send(self, topic: str, value: bytes, key: bytes | None = None, partition: int | None = None) -> None:
        self._pending.append(self._loop.call(self.raw.send(topic, value, key=key, partition=partition)))

    def flush(self) -> None:
        pending, self._pending = self._pending, []

        async def wait() -> None:
            await self.raw.flush()
            for future in pending:
                await future

        self._loop.call(wait())

    def send_offsets(self, consumer: Consumer, offsets: dict[TopicPartition, int] | None = None) -> None:
        positions = consumer.positions() if offsets is None else offsets
        sent = {ATopicPartition(*p): offset for p, offset in positions.items()}
        self._loop.call(self.raw.send_offsets_to_transaction(sent, consumer.group))

    def commit(self) -> None:
        # aiokafka commits a transaction although some of its records were refused. Their futures contain the error, and `flush`
        # raises it before the commit, as other client libraries do in commit.
        self.flush()
        self._loop.call(self.raw.commit_transaction())

    def abort(self) -> None:
        self._loop.call(self.raw.abort_transaction())

    def close(self) -> None:
        if self._loop.is_open:
            self._loop.end(self.raw.client, self.raw.stop())


class AioKafka:
    name = "aiokafka"

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
        }
        if transactional_id is not None:
            settings |= {"transactional_id": transactional_id, "transaction_timeout_ms": transaction_timeout_ms}
        return Producer(Loop(), **settings)

    def consumer(self, bootstrap: str, topics: list[str], *, group: str, committed: bool = True) -> Consumer:
        return Consumer(Loop(), bootstrap, topics, group, committed)
