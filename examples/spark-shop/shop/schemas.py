"""The topics and the schemas of their values, which are JSON."""

from __future__ import annotations

from typing import Final

ORDERS, PAYMENTS, PRODUCTS = "orders", "payments", "products"
"""Topics that other programs write. ``orders`` may have an order several times, ``products`` is compacted."""
CLEAN_ORDERS, INVOICES, SHIPMENTS, REVENUE, SETTLEMENTS = "clean-orders", "invoices", "shipments", "revenue", "settlements"
LATE_ORDERS, LATE_INVOICES, LATE_SETTLEMENTS = "late-orders", "late-invoices", "late-settlements"
"""Topics of late rows, one for each job with a watermark."""
DEAD_LETTERS: Final = "dead-letters"
RECEIPTS: Final = "receipts"
"""Topic with a record per transaction, written in the transaction: the number of its records in each topic."""

WRITTEN: Final = (
    CLEAN_ORDERS,
    INVOICES,
    SHIPMENTS,
    REVENUE,
    SETTLEMENTS,
    LATE_ORDERS,
    LATE_INVOICES,
    LATE_SETTLEMENTS,
    DEAD_LETTERS,
)
"""The topics that the jobs write, whose records have a receipt."""
TOPICS: Final = (ORDERS, PAYMENTS, *WRITTEN, RECEIPTS)
"""All topics except ``products``, which is created as a compacted topic."""

ORDER: Final = "id STRING, customer STRING, product STRING, quantity INT, cents LONG, at_ms LONG"
"""The schema of an order. ``cents`` is the price per piece."""
PAYMENT: Final = "id STRING, order STRING, cents LONG, at_ms LONG"
PRODUCT: Final = "name STRING, category STRING"
INVOICE: Final = "order STRING, customer STRING, product STRING, name STRING, category STRING, cents LONG, at_ms LONG"
SHIPMENT: Final = "order STRING, product STRING, name STRING, quantity INT"
TOTAL: Final = "window_ms LONG, category STRING, invoices LONG, cents LONG"
SETTLEMENT: Final = "status STRING, order STRING, owed LONG, payment STRING, paid LONG"
"""The schema of a settlement. ``status`` is ``paid``, ``unpaid`` (no payment came in time) or ``unmatched`` (a payment without an
order)."""
RECEIPT: Final = "sink STRING, stream STRING, batch LONG, watermark_ms LONG, records MAP<STRING, LONG>"

SOURCE: Final = "shop.source"
"""Header with the position of a row's input record: topic-partition@offset."""
PAYMENT_SOURCE: Final = "shop.payment"
"""Header of a settlement with the position of the payment."""
BATCH: Final = "shop.batch"
"""Header with the sink, the stream and the number of the batch that wrote the record. The batch's receipt has the same text."""
HEADERS: Final = "array<struct<key:string,value:binary>>"
