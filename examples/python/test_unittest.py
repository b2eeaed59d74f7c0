"""Tests with unittest: one broker for the class, emptied before each test."""

from __future__ import annotations

import json
import unittest

from confluent_kafka import Producer

from ottla import Broker


def place_order(bootstrap: str, number: int) -> None:
    """Write an order, as the tested application does."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", json.dumps({"id": number}))
    producer.flush(30)


class OrdersTest(unittest.TestCase):
    broker: Broker

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = cls.enterClassContext(Broker())

    def setUp(self) -> None:
        self.broker.reset()

    def test_order_is_written(self) -> None:
        place_order(self.broker.bootstrap, 1)
        self.broker.expect("orders", [{"id": 1}])

    def test_lost_response_causes_no_duplicate(self) -> None:
        with self.broker.faults.cut("before", api="Produce"):
            place_order(self.broker.bootstrap, 2)
        self.broker.expect("orders", [{"id": 2}])


class AsyncOrdersTest(unittest.IsolatedAsyncioTestCase):
    async def test_order_is_written(self) -> None:
        async with Broker() as broker:
            await broker.aio.produce("orders", {"id": 3})
            await broker.aio.expect("orders", [{"id": 3}])


if __name__ == "__main__":
    unittest.main()
