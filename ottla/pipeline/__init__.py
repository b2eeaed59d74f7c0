"""The data pipeline on PySpark, exactly once from topic to topic. It needs ``pip install 'ottla[pipeline]'``.

- `generate`: generates purchases, always the same for the same seed.
- `ledger`: reads a topic's log batch by batch, and counts the transactions.
- `progress`: combines the sink's report of a batch with Spark's progress of the batch.
- `running`: runs a job of ``ottla pipeline``, shows the progress, and chooses the exit code.
- `schemas`: the names of the topics, and the schemas of their values.
- `settings`: the settings of jobs (``ottla pipeline JOB``).
- `signals`: stops a job on a signal.
- `stream`: the code that all streaming jobs share.
- `topics`: creates the topics of a job, and fills a topic with a stock producer.
"""
