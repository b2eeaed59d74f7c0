"""The names of the topics, and the schemas of their values, which apply to every format (`spark.schemas.formats`)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, TOTALS = "purchases", "invoices", "shipments", "dead-letters", "totals"
PURCHASE = "id LONG, user STRING, product STRING, quantity INT, price_cents LONG, at_ms LONG"
INVOICE = "purchase LONG, user STRING, amount_cents LONG, at_ms LONG"
SHIPMENT = "purchase LONG, user STRING, product STRING, quantity INT"
TOTAL = "window_ms LONG, user STRING, product STRING, purchases LONG, quantity LONG, amount_cents LONG"

MAX_AHEAD_MS = 3_600_000
"""Maximum time, in ms, by which Kafka allows a record's timestamp to be ahead of the broker's clock
(log.message.timestamp.after.max.ms)."""
MAX_RUN_CHARACTERS = 100
"""Maximum length of a run id, in characters. Every record that a job writes has the run id in a header."""


class ShopTopics(msgspec.Struct, frozen=True):
    source: str = PURCHASES
    invoices: str = INVOICES
    shipments: str = SHIPMENTS
    dead_letters: str = DEAD_LETTERS
    totals: str = TOTALS


class Terms(msgspec.Struct, frozen=True):
    """The conditions under which a record is a valid purchase. ``max_ahead_ms`` is the maximum time by which the purchase's time
    may be ahead of the record's timestamp.

    With ``deduplicate`` purchases with equal fields count as one; to compare them, Spark stores all purchases. ``limits`` has
    max.message.bytes by topic; other topics have no limit.
    """

    topics: ShopTopics = ShopTopics()
    max_ahead_ms: int = MAX_AHEAD_MS
    deduplicate: bool = False
    limits: Mapping[str, int] = {}


DEFAULT_TERMS = Terms()
