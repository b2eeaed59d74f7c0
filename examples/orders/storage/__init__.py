"""This project's own package of that name: what its records are."""

ORDER = "order_id STRING, customer STRING, cents LONG"
