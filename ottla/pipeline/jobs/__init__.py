"""The jobs of ``ottla pipeline``.

- `audit`: checks that every record was processed once, and that totals and exports are right.
- `export`: exports the committed records of a topic as Parquet files, each record once.
- `generate`: generates purchases, and writes them in transactions of Spark's tasks.
- `shop`: turns each purchase into an invoice and a shipment, and other records into dead letters.
- `totals`: sums purchases per user, product and hour of event time.
"""
