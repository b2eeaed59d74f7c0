"""What is in the topics, declared once, whichever format it is written in (`spark.formats`), and what the topics are called."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, TOTALS = "purchases", "invoices", "shipments", "dead-letters", "totals"
PURCHASE = "id LONG, user STRING, product STRING, quantity INT, price_cents LONG, at_ms LONG"
INVOICE = "purchase LONG, user STRING, amount_cents LONG, at_ms LONG"
SHIPMENT = "purchase LONG, user STRING, product STRING, quantity INT"
TOTAL = "window_ms LONG, user STRING, product STRING, purchases LONG, quantity LONG, amount_cents LONG"

MAX_AHEAD_MS = 3_600_000
"""As far as Kafka lets a record's own time be ahead of the broker's (log.message.timestamp.after.max.ms)."""
MAX_RUN_CHARACTERS = 100
"""Of a run's id, which stands in the headers of every record that a job writes."""


class Topics(msgspec.Struct, frozen=True):
    """What each topic of the shop is called."""

    source: str = PURCHASES
    invoices: str = INVOICES
    shipments: str = SHIPMENTS
    dead_letters: str = DEAD_LETTERS
    totals: str = TOTALS


class Terms(msgspec.Struct, frozen=True):
    """On which a record is a purchase. ``max_ahead_ms`` is how far its time may be ahead of its record's, which no replay changes.

    With ``deduplicate`` a purchase that the source has again, the same in all its fields, is none: for the whole of a job, which
    keeps all purchases for that. ``limits`` are the largest batches that topics take (max.message.bytes); a topic that is not among
    them takes any.
    """

    topics: Topics = Topics()
    max_ahead_ms: int = MAX_AHEAD_MS
    deduplicate: bool = False
    limits: Mapping[str, int] = {}


DEFAULT_TERMS = Terms()
