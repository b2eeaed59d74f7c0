"""The schemas of the topics' values, which are the same in every format (`spark.schemas.formats`), and the names of the topics."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, TOTALS = "purchases", "invoices", "shipments", "dead-letters", "totals"
PURCHASE = "id LONG, user STRING, product STRING, quantity INT, price_cents LONG, at_ms LONG"
INVOICE = "purchase LONG, user STRING, amount_cents LONG, at_ms LONG"
SHIPMENT = "purchase LONG, user STRING, product STRING, quantity INT"
TOTAL = "window_ms LONG, user STRING, product STRING, purchases LONG, quantity LONG, amount_cents LONG"

MAX_AHEAD_MS = 3_600_000
"""How far Kafka allows a record's timestamp to be ahead of the broker's clock, in ms (log.message.timestamp.after.max.ms)."""
MAX_RUN_CHARACTERS = 100
"""Longest run id, in characters. Every record that a job writes has it in a header."""


class ShopTopics(msgspec.Struct, frozen=True):
    """The names of the shop's topics."""

    source: str = PURCHASES
    invoices: str = INVOICES
    shipments: str = SHIPMENTS
    dead_letters: str = DEAD_LETTERS
    totals: str = TOTALS


class Terms(msgspec.Struct, frozen=True):
    """The conditions under which a record is a purchase. ``max_ahead_ms`` is how far the purchase's time may be ahead of the
    record's timestamp, which a replay does not change.

    With ``deduplicate`` a purchase counts once, even if the source repeats it with the same contents in all fields. A job keeps all
    purchases for that. ``limits`` is max.message.bytes by topic; other topics have no limit.
    """

    topics: ShopTopics = ShopTopics()
    max_ahead_ms: int = MAX_AHEAD_MS
    deduplicate: bool = False
    limits: Mapping[str, int] = {}


DEFAULT_TERMS = Terms()
