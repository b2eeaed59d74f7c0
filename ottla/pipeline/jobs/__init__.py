"""The jobs of ``ottla pipeline``, one in each module.

- `audit`: checks whether the topics agree: every purchase occurs once, as an invoice and a shipment or as a dead letter; totals and
  exports are right.
- `export`: exports the committed records of a topic as Parquet files, each record once.
- `generate`: lets Spark's tasks write purchases in transactions.
- `shop`: turns each purchase into an invoice and a shipment, and other records into dead letters, all in one transaction.
- `totals`: sums what each user has spent on each product in each hour of the purchases' own time, and writes the changed totals
  after every batch.
"""
