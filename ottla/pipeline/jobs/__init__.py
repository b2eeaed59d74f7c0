"""The jobs of ``ottla pipeline``, one in each module.

- `audit`: checks that the topics agree: every purchase occurs once, as an invoice and a shipment or as a dead letter; totals and
  exports are right.
- `export`: exports the committed records of a topic as Parquet files, each record once.
- `generate`: writes purchases in transactions of Spark's tasks.
- `shop`: turns each purchase into an invoice and a shipment, and other records into dead letters, all in one transaction.
- `totals`: sums each user's spending on each product per hour of event time, and writes the changed totals after every batch.
"""
