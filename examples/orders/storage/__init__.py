"""Schemas. The package `ottla.storage` does not conflict with this package."""

ORDER = "order_id STRING, customer STRING, cents LONG"
