"""The data pipeline on PySpark, exactly once from topic to topic. It needs ``pip install 'ottla[pipeline]'``.

- `dead_letters`: dead letters: a record that a job cannot handle is copied to a topic of its own, with headers that say why and
  where it came from.
- `generate`: generates purchases, always the same for the same seed: few users buy most, some events are late, and some rows are
  not purchases.
- `ledger`: reads a topic's log batch by batch, and counts its transactions.
- `progress`: how a stream goes, batch by batch: what the sink has reported, with what Spark's own progress says of the same batch.
- `running`: runs a job of ``ottla pipeline`` for a person: shows its progress, and chooses the exit code.
- `schemas`: the schemas of the topics' values, which are the same in every format (`spark.schemas.formats`), and the names of the
  topics.
- `settings`: the settings of jobs (``ottla pipeline JOB``).
- `signals`: signals end a job in order: at once before anything was begun, and later once Spark's JVM has started or the batch was
  aborted.
- `stream`: the parts that all streaming jobs share: reading a topic's committed records, a transform, the exactly-once sink,
  progress and the end.
- `topics`: makes the topics of a job, and fills the first of them with a stock producer.
"""
