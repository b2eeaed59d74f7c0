"""Reads orders and writes an invoice for each, exactly once: offsets are committed in the transaction of the invoices."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

ORDERS, INVOICES = "orders", "invoices"
GROUP = "billing"
BATCH = 100
TRANSACTION_TIMEOUT_S = 60


class Fenced(Exception):
    """Another worker uses the same name, so this worker must end."""


@dataclass
class Worker:
    """A process of the service. Each worker has its own ``name``, which restarts do not change."""

    bootstrap: str
    name: str
    consumer: Consumer = field(init=False)
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self.consumer.subscribe([ORDERS])
        self.producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_S * 1_000,
            }
        )
        # This fences an earlier worker of the same name, and aborts its open transaction.
        self.producer.init_transactions(30)

    def bill(self, wait_s: float = 1.0) -> int:
        """Write the invoices of the next orders, and return the number of orders. Raises `Fenced`."""
        orders = [message for message in self.consumer.consume(BATCH, wait_s) if message.error() is None]
        if not orders:
            return 0
        try:
            self.producer.begin_transaction()
            for order in orders:
                self.producer.produce(INVOICES, invoice(order), key=order.key())
            self._commit()
        except KafkaException as error:
            self._give_up(error)
            return 0
        return len(orders)

    def _commit(self) -> None:
        position = self.consumer.position(self.consumer.assignment())
        self.producer.send_offsets_to_transaction(position, self.consumer.consumer_group_metadata())
        while True:
            try:
                self.producer.commit_transaction(30)
            except KafkaException as error:
                # The commit may have taken effect without a response. Sending it again is safe, and returns the outcome.
                if not error.args[0].retriable():
                    raise
            else:
                return

    def _give_up(self, failed: KafkaException) -> None:
        """Abort the transaction, and seek to its first orders. Raises `Fenced` after a fatal error."""
        reason: KafkaError = failed.args[0]
        if reason.fatal():
            raise Fenced(str(reason)) from failed
        self.producer.abort_transaction(30)
        committed = self.consumer.committed(self.consumer.assignment(), 10)
        for partition in committed:
            partition.offset = max(partition.offset, 0)
            self.consumer.seek(partition)

    def close(self) -> None:
        self.consumer.close()


def invoice(order: Message) -> bytes:
    ordered = json.loads(order.value() or b"{}")
    return json.dumps({"order": ordered["id"], "total": ordered["price"] * ordered["count"]}).encode()
