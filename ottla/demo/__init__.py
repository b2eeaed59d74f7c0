"""The demonstration: a shop in which each purchase becomes an invoice and a shipment exactly once, in spite of failures.

- `audit`: reads the shop's topics with aiokafka, and counts missing and wrong records.
- `pipeline`: runs all jobs of the pipeline on a new broker: generate, shop, totals, export, audit.
- `run`: runs ``ottla demo``: starts a broker and the shop, causes failures, and shows the result in a table.
- `shop`: the shop's worker: reads purchases, writes invoices and shipments, and commits the offsets in the same transaction.
- `command`: the command ``ottla demo``.
- `pipeline_command`: the command ``ottla pipeline demo``.
"""
