"""The exactly-once sink: one transaction per micro-batch, written by the tasks and owned by the driver.

- `attempts`: checks that Spark ran the tasks of a batch once.
- `batch_sender`: sends the batches of a shared transaction to the leaders of their partitions, with several requests in flight.
- `datasource`: ``format("ottla")``: segment files as a source, which is read once or followed, and the exactly-once sink.
- `driver`: the fallback for brokers without transaction version 2: one stock transactional producer in the driver.
- `exactly_once`: writes one micro-batch in one transaction: decides whether the batch is due, who writes it, and how the
  transaction ends.
- `foreach_batch`: the exactly-once sink for foreachBatch: one transaction a micro-batch, written by the tasks, owned by the driver.
- `frames`: writes frames that are no streams, each once: `write_once`.
- `id_claim`: checks that no other stream has a transactional id, before that stream's producer would be fenced.
- `keepalive`: marks of streams that are idle: a broker deletes offsets that nobody has committed for a while
  (offsets.retention.minutes).
- `mark_topic`: chooses the topic at whose offsets a stream's mark stands, in the group on the cluster that the stream writes to.
- `metrics`: reports and counts of a sink, for a person, a listener, and Spark's metrics system.
- `options`: parses the sink's options: those of Spark (``kafka.*``, ``topic``) and those of a producer.
- `progress_listener`: what Spark says of each batch of a stream (StreamingQueryProgress), and what its sink says of the same batch,
  put together.
- `row_writing`: writes the rows of one frame as part of a transaction: by Spark's tasks, by the driver, or gathered and written by
  the driver.
- `session_setup`: prepares a session for the sink and the sources: the package on its executors, the name ``ottla``, and checked
  settings.
- `small_batches`: small batches: the driver gathers the rows and writes them itself.
- `spark_metrics`: the counts of a sink in Spark's metrics system, so that every configured reporter (Prometheus' servlet, JMX)
  shows them.
- `stream_writing`: ``frame.writeStream.format("ottla")``: the exactly-once sink as a data source, for streams without foreachBatch.
- `transaction`: a transaction that many tasks share.
- `writer`: the writing half of a task: encodes rows as batches of one shared transaction, in sequence.
"""
