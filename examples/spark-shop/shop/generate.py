"""Generates orders, payments and products, always the same for the same seed.

Some orders are sent twice, some come hours late, some are malformed, some name an unknown product. Some orders are not paid, some
are paid too late, and some payments have no order.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ottla.client import NewRecord
from shop.schemas import ORDERS, PAYMENTS, PRODUCTS
from shop.settings import Settings
from shop.topics import client

BEGIN_MS: Final = 1_700_000_000_000
MINUTE_MS: Final = 60_000
CATEGORIES: Final = {"kitchen": ("teapot", "kettle", "pan"), "garden": ("rake", "hose"), "desk": ("lamp", "pen", "chair")}
CHUNK: Final = 1_000
"""Number of records per call of the producer."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The number of orders, and the shares of special orders and payments. ``step_ms`` is the time between two orders."""

    orders: int = 5_000
    seed: int = 1
    step_ms: int = 5_000
    resent_share: float = 0.03
    late_share: float = 0.02
    malformed_share: float = 0.01
    unknown_share: float = 0.01
    paid_share: float = 0.85
    stray_share: float = 0.02


@dataclass(frozen=True, slots=True)
class Generated:
    """A record with the time at which it is sent, in ms."""

    topic: str
    sent_ms: int
    key: str
    value: bytes


def products() -> Iterator[Generated]:
    for category, names in CATEGORIES.items():
        for name in names:
            yield Generated(PRODUCTS, BEGIN_MS, f"p-{name}", json.dumps({"name": name.title(), "category": category}).encode())


def records(workload: Workload) -> list[Generated]:
    """Return all orders and payments in the order in which they are sent."""
    rng = random.Random(workload.seed)
    made = [record for number in range(workload.orders) for record in _records_of(rng, workload, number)]
    return sorted(made, key=lambda record: record.sent_ms)


def _records_of(rng: random.Random, workload: Workload, number: int) -> Iterator[Generated]:
    at_ms = BEGIN_MS + number * workload.step_ms
    known = [f"p-{name}" for names in CATEGORIES.values() for name in names]
    order = {
        "id": f"o-{number}",
        "customer": f"c-{rng.randrange(100)}",
        "product": "p-unknown" if rng.random() < workload.unknown_share else rng.choice(known),
        "quantity": rng.randrange(1, 5),
        "cents": rng.randrange(100, 20_000),
        "at_ms": at_ms,
    }
    if rng.random() < workload.malformed_share:
        yield Generated(ORDERS, at_ms, order["id"], _spoilt(rng, order))
        return
    # An order of an offline till is sent hours after it was made.
    sent_ms = at_ms + rng.randrange(100, 400) * MINUTE_MS if rng.random() < workload.late_share else at_ms
    yield Generated(ORDERS, sent_ms, order["id"], json.dumps(order).encode())
    if rng.random() < workload.resent_share:
        yield Generated(ORDERS, sent_ms + rng.randrange(90) * MINUTE_MS, order["id"], json.dumps(order).encode())
    if rng.random() < workload.paid_share:
        paid_ms = at_ms + int(rng.random() ** 2 * 90) * MINUTE_MS
        payment = {"id": f"pay-{number}", "order": order["id"], "cents": order["quantity"] * order["cents"], "at_ms": paid_ms}
        yield Generated(PAYMENTS, paid_ms, order["id"], json.dumps(payment).encode())
    if rng.random() < workload.stray_share:
        stray = {"id": f"stray-{number}", "order": f"none-{number}", "cents": 1_000, "at_ms": at_ms}
        yield Generated(PAYMENTS, at_ms, stray["order"], json.dumps(stray).encode())


def _spoilt(rng: random.Random, order: dict[str, object]) -> bytes:
    """Return a value that is not an order."""
    match rng.randrange(4):
        case 0:
            return json.dumps(order).encode()[: rng.randrange(1, 30)]
        case 1:
            return json.dumps({**order, "quantity": "many"}).encode()
        case 2:
            return json.dumps({**order, "at_ms": 32_503_680_000_000}).encode()
        case _:
            return b"\xff\xfe not even text"


def fill(settings: Settings, workload: Workload) -> int:
    """Write all records, and return their number. Raises `ClientError`."""
    made = [*products(), *records(workload)]
    with client(settings) as cluster:
        for topic in (PRODUCTS, ORDERS, PAYMENTS):
            rows = [
                NewRecord(record.value, key=record.key.encode(), timestamp_ms=record.sent_ms)
                for record in made
                if record.topic == topic
            ]
            for start in range(0, len(rows), CHUNK):
                cluster.produce(topic, rows[start : start + CHUNK])
    return len(made)
