"""What is in the shop's topics, declared once: purchases come in as JSON, everything else goes out as JSON."""

from __future__ import annotations

PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS = "purchases", "invoices", "shipments", "dead-letters"
PURCHASE = "id LONG, user STRING, product STRING, quantity INT, price_cents LONG, at_ms LONG"
INVOICE = "purchase LONG, user STRING, amount_cents LONG, at_ms LONG"
SHIPMENT = "purchase LONG, user STRING, product STRING, quantity INT"

OUTPUT = "topic STRING, key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
"""Rows for the sink. A row without a key goes to any partition."""
