"""The shop's worker: reads purchases, writes an invoice and a shipment for each, and commits the offsets in the same transaction.

The worker runs in its own process, so that it can be killed, stopped and fenced: ``python -m ottla.demo.shop BOOTSTRAP
TRANSACTIONAL_ID PLAN``. It prints a line of JSON for each event, such as a committed transaction.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Message, Producer

PURCHASES, INVOICES, SHIPMENTS = "purchases", "invoices", "shipments"
PARTITIONS = 3
GROUP = "shop"
BATCH = 50
FENCED_EXIT = 3
CALL_TIMEOUT_S = 30.0
IDLE_S = 1.5
# Disable rebootstrapping (KIP-899): librdkafka 2.x that rebootstraps while its only broker restarts may never connect again.
COMMON = {"metadata.recovery.strategy": "none", "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}


@dataclass(slots=True, frozen=True)
class ShopPlan:
    """The failures of a worker, by the number of the transaction; -1 means never.

    Every ``abort_every``-th transaction is aborted and repeated (0: none). In transaction ``die_at`` the worker waits to be killed.
    In transaction ``sleep_at`` the worker waits to be paused, and later continues.
    """

    abort_every: int = 0
    die_at: int = -1
    sleep_at: int = -1

    @classmethod
    def parse(cls, text: str) -> ShopPlan:
        return cls(**json.loads(text))

    def text(self) -> str:
        return json.dumps({"abort_every": self.abort_every, "die_at": self.die_at, "sleep_at": self.sleep_at})


def say(event: str, count: int = 0) -> None:
    print(json.dumps({"event": event, "count": count}), flush=True)


class Worker:
    """A consumer and a transactional producer."""

    def __init__(self, bootstrap: str, transactional_id: str, plan: ShopPlan) -> None:
        self._plan = plan
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 2_000,
                "heartbeat.interval.ms": 300,
                "fetch.wait.max.ms": 50,
                **COMMON,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 60_000,
                "linger.ms": 1,
                **COMMON,
            }
        )

    def run(self) -> None:
        self._producer.init_transactions(CALL_TIMEOUT_S)
        self._consumer.subscribe([PURCHASES])
        number, idle_since = 0, time.monotonic()
        while time.monotonic() - idle_since < IDLE_S or not self._consumer.assignment():
            batch = [m for m in self._consumer.consume(BATCH, 0.2) if m.error() is None]
            if not batch:
                continue
            if self._plan.abort_every and number % self._plan.abort_every == 1:
                self._write(batch, number)
                self._producer.flush(CALL_TIMEOUT_S)
                self._producer.abort_transaction(CALL_TIMEOUT_S)
                say("aborted", len(batch))
            self._write(batch, number)
            self._producer.send_offsets_to_transaction(
                self._consumer.position(self._consumer.assignment()), self._consumer.consumer_group_metadata(), CALL_TIMEOUT_S
            )
            self._producer.commit_transaction(CALL_TIMEOUT_S)
            say("committed", len(batch))
            number += 1
            idle_since = time.monotonic()
        self._consumer.close()

    def _write(self, batch: list[Message], number: int) -> None:
        self._producer.begin_transaction()
        for at, purchase in enumerate(batch):
            self._producer.produce(INVOICES, purchase.value(), purchase.key())
            self._producer.produce(SHIPMENTS, purchase.value(), purchase.key())
            if at == len(batch) // 2 and number in (self._plan.die_at, self._plan.sleep_at):
                # Half of the transaction is written. Wait for the planned failure.
                self._producer.flush(CALL_TIMEOUT_S)
                say("in_the_middle", at)
                time.sleep(3600 if number == self._plan.die_at else 0)
                if number == self._plan.sleep_at:
                    sys.stdin.readline()


def main() -> int:
    bootstrap, transactional_id, plan = sys.argv[1:4]
    try:
        Worker(bootstrap, transactional_id, ShopPlan.parse(plan)).run()
    except KafkaException as error:
        if "fenced" in str(error).lower() or "epoch" in str(error).lower():
            say("fenced")
            return FENCED_EXIT
        raise
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
