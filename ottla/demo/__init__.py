"""The demonstration: a shop in which purchases become invoices and shipments exactly once, in spite of failures.

- `audit`: reads the shop's topics with another client than the worker's, and counts records that must not exist.
- `pipeline`: runs all jobs of the pipeline on a new broker: generate, shop, totals, export, audit.
- `run`: runs ``ottla demo``: a broker, the shop on it, failures, and a table that proves the result.
- `shop`: the shop's worker: it reads purchases, writes an invoice and a shipment for each, and commits its offsets in the same
  transaction.
- `command`: the command ``ottla demo``.
- `pipeline_command`: the command ``ottla pipeline demo``.
"""
