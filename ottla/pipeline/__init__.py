"""The data pipeline on PySpark, exactly once from topic to topic. It needs ``pip install 'ottla[pipeline]'``.

- `dead_letters`: dead letters: a record that a job cannot process is copied to a topic of its own, with headers for the reason and
  the record's position.
- `generate`: generates purchases, always the same for the same seed: few users buy most, some events are late, and some rows are
  not purchases.
- `ledger`: reads a topic's log batch by batch, and counts its transactions.
- `progress`: the progress of a stream, batch by batch: the sink's report and Spark's own progress of the same batch.
- `running`: runs a job of ``ottla pipeline`` for a person: shows its progress, and chooses the exit code.
- `schemas`: the schemas of the topics' values, which are the same in every format (`spark.schemas.formats`), and the names of the
  topics.
- `settings`: the settings of jobs (``ottla pipeline JOB``).
- `signals`: stops a job on a signal: at once before it has begun, and later once Spark's JVM has started or the batch was aborted.
- `stream`: the parts that all streaming jobs share: reading a topic's committed records, a transform, the exactly-once sink,
  progress and stopping.
- `topics`: creates the topics of a job, and fills the first of them with a stock producer.
"""
