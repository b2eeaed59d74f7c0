"""Generates purchases, always the same for the same seed. Few users make most purchases, some events are late, and some rows are
not purchases."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import msgspec

from ottla.pipeline.schemas import PURCHASE
from ottla.spark.schemas.formats import JSON, Format

LATE_MS = 15 * 60_000
BLOCK_ROWS = 10_000


class Workload(msgspec.Struct, frozen=True):
    """Parameters of the generated purchases. Shares are fractions of all rows."""

    rows: int
    seed: int = 1
    users: int = 1_000
    products: int = 100
    malformed_share: float = 0.01
    late_share: float = 0.02
    begin_ms: int = 1_700_000_000_000
    step_ms: int = 5


class Generated(msgspec.Struct, frozen=True):
    """A generated record. ``is_sound`` is true for a valid purchase."""

    key: bytes
    value: bytes
    at_ms: int
    is_sound: bool


def purchases(workload: Workload, values: Format = JSON) -> Iterator[Generated]:
    for block in range(-(-workload.rows // BLOCK_ROWS)):
        yield from purchases_of(workload, block, values)


def purchases_of(workload: Workload, block: int, values: Format = JSON) -> Iterator[Generated]:
    """Generate the rows of one block. Blocks are independent, so any Spark task can generate any block, even repeatedly."""
    rng = random.Random(f"{workload.seed}/{block}" if block else workload.seed)
    for number in range(block * BLOCK_ROWS, min(workload.rows, (block + 1) * BLOCK_ROWS)):
        # Squaring the uniform random number lets the first tenth of the users make a third of the purchases.
        user = f"user-{int(workload.users * rng.random() ** 2)}"
        at_ms = workload.begin_ms + number * workload.step_ms
        if rng.random() < workload.late_share:
            at_ms -= rng.randrange(LATE_MS)
        purchase = {
            "id": number,
            "user": user,
            "product": f"product-{rng.randrange(workload.products)}",
            "quantity": rng.randrange(1, 6),
            "price_cents": rng.randrange(100, 50_000),
            "at_ms": at_ms,
        }
        is_sound = rng.random() >= workload.malformed_share
        value = values.pack(purchase, PURCHASE) if is_sound else _spoilt(rng, purchase, values)
        yield Generated(user.encode(), value, at_ms, is_sound)


def _spoilt(rng: random.Random, purchase: dict[str, object], values: Format) -> bytes:
    """Return a value that is not a purchase."""
    match rng.randrange(5):
        case 0:
            return values.pack(purchase, PURCHASE)[: rng.randrange(1, 30)]
        case 1:
            return json.dumps({**purchase, "quantity": "many"}).encode()
        case 2:
            return values.pack({k: v for k, v in purchase.items() if k != "id"}, PURCHASE)
        case 3:
            return values.pack({**purchase, "quantity": -1}, PURCHASE)
        case _:
            return b"\xff\xfe not even text"
