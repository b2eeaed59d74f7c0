"""A process with actors that write through one stock client until SIGTERM: ``python -m tests.chaos.worker ...``.

An actor has a role, a transactional id, and optionally a group protocol. The role ``plain`` writes transactions to several
partitions. The role ``pipe`` consumes input records, writes an output record for each and sends its offsets to the transaction.
Some transactions are aborted on purpose. Two roles have no transactions: ``solo`` is an idempotent producer, and ``watch`` is a
read_committed consumer that records everything it reads.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

from ottla.protocol.topic_partition import TopicPartition
from tests.chaos.history import Scribe
from tests.chaos.points import die_with_parent
from tests.wire.clients import Client, Fenced, Message, WireConsumer, WireProducer

TIMEOUT_MS = 4_000
"""Transaction timeout. A transaction is aborted if its client pauses longer. The request timeout is three quarters of it."""
ABORTS = 0.15
COMMIT_TRIES = 5
WAIT_S = 0.1

stopping = threading.Event()


class Retired(Exception):
    """Raised when the producer of another process with the same transactional id has fenced this actor's producer."""


class Actor:
    """Writes one transaction after the other, and creates a new producer after each fatal error."""

    def __init__(self, client: Client, options: argparse.Namespace, name: str, topics: dict[str, int]) -> None:
        self.role, self.transactional_id, *protocol = name.split(":")
        self.group = f"g-{self.transactional_id.rpartition('-')[0]}" if self.role == "pipe" else None
        self._client = client_named(client.name, *protocol) if protocol else client
        self._bootstrap = options.bootstrap
        self.actor = f"{self.transactional_id}#{options.instance}"
        self._retired = Path(f"{options.history}.retired")
        self._scribe = Scribe(Path(f"{options.history}.{self.transactional_id}"), self.actor, self.transactional_id, self.group)
        self._rng = random.Random(f"{options.seed}/{self.actor}")
        self._topics = topics
        self._pace_s = options.pace_ms / 1000
        self._timeout_ms = options.timeout_ms
        self._session = 0
        self._number = 0
        self._commit_asked = False
        self._producer: WireProducer | None = None
        self._consumer: WireConsumer | None = None
        # The actor itself tracks the next offset of each input partition, because aiokafka resets its position to committed
        # offsets during a rebalance, and commits offsets without the group's generation.
        self._goes_back = client.name == "aiokafka"
        self._next: dict[TopicPartition, int] = {}

    def run(self) -> None:
        try:
            while not stopping.is_set():
                try:
                    self._step()
                except Fenced:
                    self._scribe.note("fenced")
                    self._start_anew()
                except Retired:
                    return
                except Exception as error:
                    self._scribe.note("trouble", error=f"{type(error).__name__}: {error}"[:300])
                    self._start_anew()
        finally:
            self._close()

    def _start_anew(self) -> None:
        with contextlib.suppress(Exception):
            if self._producer is not None:
                self._producer.close()
        self._producer = None
        stopping.wait(WAIT_S)

    def _close(self) -> None:
        for client in (self._producer, self._consumer):
            with contextlib.suppress(Exception):
                if client is not None:
                    client.close()
        self._scribe.close()

    def _initialised(self) -> WireProducer:
        """Return the producer, or create and initialise a new one.

        Initialising ends the open transaction of the previous producer, so that committed offsets are final afterwards.
        """
        if self._producer is not None:
            return self._producer
        if self._retired.exists():
            raise Retired
        producer = self._client.producer(
            self._bootstrap,
            transactional_id=None if self.role == "solo" else self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            request_timeout_ms=self._timeout_ms * 3 // 4,
        )
        self._producer = producer
        if self.role != "solo":
            producer.init()
        self._session += 1
        self._scribe.note("initialised", session=self._session)
        self._rewind()
        return producer

    def _rewind(self) -> None:
        if self._consumer is None:
            return
        asked_s = time.monotonic()
        offsets = self._consumer.rewind()
        self._scribe.note("offsets read", asked_s=asked_s, offsets=[(*where, at) for where, at in offsets.items()])
        self._next = dict(offsets)

    def _step(self) -> None:
        if self.role == "watch":
            self._watch()
            return
        producer = self._initialised()
        messages = self._poll() if self.role == "pipe" else []
        if self.role == "pipe" and not messages:
            return
        self._number += 1
        rng = self._rng
        records: list[tuple[str, int, str, tuple[str, int, int] | None]] = []
        if self.role == "pipe":
            for m in messages:
                records.append(self._record("out", len(records), (m.topic, m.partition, m.offset)))
        else:
            topics = ["in"] if self.role == "feed" else ["a", "b"]
            for _ in range(rng.choice([1, 2, 3, 5, 8, 20])):
                records.append(self._record(rng.choice(topics), len(records), None))
        offsets: dict[TopicPartition, int] = {}
        for m in messages:
            offsets[m.topic, m.partition] = m.offset + 1
        number, session = self._number, self._session
        self._scribe.note(
            "begin",
            session=session,
            number=number,
            records=records,
            offsets=[(*w, at) for w, at in offsets.items()],
            is_transaction=self.role != "solo",
        )
        if self.role == "solo":
            self._send(producer, records)
            producer.flush()
            self._scribe.note("committed", session=session, number=number)
            time.sleep(rng.random() * 2 * self._pace_s)
            return
        aborts = rng.random() < ABORTS
        self._commit_asked = False
        try:
            self._transact(producer, records, offsets, aborts)
        except Exception as error:
            if isinstance(error, Fenced) or self._commit_asked or rng.random() < 0.5:
                raise
            self._scribe.note("trouble", error=f"{type(error).__name__}: {error}"[:300])
            aborts = True
            producer.abort()
        self._scribe.note("ended" if aborts else "committed", session=session, number=number)
        if aborts:
            self._rewind()
        else:
            self._next |= offsets
        time.sleep(rng.random() * 2 * self._pace_s)

    def _send(self, producer: WireProducer, records: list[Any]) -> None:
        for topic, partition, value, _ in records:
            producer.send(topic, value.encode() + b"." * self._rng.randrange(60), partition=partition)

    def _watch(self) -> None:
        if self._retired.exists():
            raise Retired
        if self._consumer is None:
            self._consumer = self._client.consumer(self._bootstrap, sorted(self._topics), group=self.actor)
        records = [(m.topic, m.partition, m.offset, (m.value or b"").decode().rstrip(".")) for m in self._consumer.poll(0.3)]
        if records:
            self._scribe.note("read", records=records)

    def _record(self, topic: str, at: int, source: tuple[str, int, int] | None) -> tuple[str, int, str, Any]:
        partition = self._rng.randrange(self._topics[topic])
        return topic, partition, f"{self.actor}/{self._session}/{self._number}/{at}", source

    def _transact(self, producer: WireProducer, records: list[Any], offsets: dict[TopicPartition, int], aborts: bool) -> None:
        producer.begin()
        self._send(producer, records)
        if self._rng.random() < 0.5:
            producer.flush()
        if offsets:
            assert self._consumer is not None
            producer.send_offsets(self._consumer, offsets)
        if aborts:
            producer.abort()
            return
        self._commit_asked = True
        self._scribe.note("commit asked", session=self._session, number=self._number)
        for attempt in range(COMMIT_TRIES):
            try:
                producer.commit()
                return
            except Fenced:
                raise
            except Exception as error:
                # The commit is retried only after errors that librdkafka marks as retriable.
                again = getattr(error.args[0], "retriable", None) if error.args else None
                if again is None or not again() or attempt == COMMIT_TRIES - 1:
                    raise

    def _poll(self) -> list[Message]:
        if self._consumer is None:
            self._consumer = self._client.consumer(self._bootstrap, ["in"], group=str(self.group))
            self._next = {}
        messages = []
        for m in self._consumer.poll(0.2):
            if not self._goes_back or m.offset >= self._next.get((m.topic, m.partition), 0):
                messages.append(m)
        return messages


def client_named(name: str, protocol: str = "classic") -> Client:
    """Return the client library with this name. If it supports ``group.protocol``, its consumers use ``protocol``."""
    if name == "kafka-python":
        from tests.wire.clients.kafka_python import KafkaPython

        return KafkaPython()
    if name == "aiokafka":
        from aiokafka.protocol.commit import OffsetFetchRequest, OffsetFetchRequest_v1

        from tests.wire.clients.aio import AioKafka

        # aiokafka checks only error codes of partitions. From version 2 on, OffsetFetch has a top-level error code and then no
        # partitions. After a move of the coordinator, aiokafka would treat this as "no offset committed" and restart at offset 0.
        OffsetFetchRequest._CLASSES = (OffsetFetchRequest_v1,)
        return AioKafka()
    if name == "confluent-kafka":
        from tests.wire.clients.confluent import Confluent

        return Confluent(protocol)
    from tests.wire.clients.java import Java, gateway

    gateway()
    return Java(protocol)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--client", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--history", required=True)
    parser.add_argument("--instance", type=int, required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--pace-ms", type=int, required=True, help="between two transactions of an actor, on average")
    parser.add_argument("--timeout-ms", type=int, default=TIMEOUT_MS, help="of a transaction")
    parser.add_argument("--topics", required=True, help="name=partitions,...")
    parser.add_argument("actors", nargs="+", help="role:transactional id, and :group protocol")
    options = parser.parse_args()
    faulthandler.register(signal.SIGUSR1)
    die_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    topics = {name: int(count) for name, _, count in (part.partition("=") for part in options.topics.split(","))}
    client = client_named(options.client)
    threads = [threading.Thread(target=Actor(client, options, name, topics).run) for name in options.actors]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.2)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
