"""The exactly-once sink: one transaction per micro-batch, written by the tasks and owned by the driver.

- `attempts`: checks that Spark ran the tasks of a batch once.
- `batch_sender`: sends the batches of a shared transaction to the leaders of their partitions, with several requests in flight.
- `datasource`: ``format("ottla")``: segment files as a batch or streaming source, and the exactly-once sink.
- `driver`: the fallback for brokers without transaction version 2: one stock transactional producer in the driver.
- `exactly_once`: writes one micro-batch in one transaction, unless the batch was committed before.
- `foreach_batch`: the exactly-once sink for foreachBatch.
- `frames`: writes frames that are not streams, each once: `write_once`.
- `id_claim`: checks that no other stream uses a transactional id, before that stream's producer would be fenced.
- `keepalive`: renews the progress records of idle streams, because a broker deletes offsets that were not committed for a while
  (offsets.retention.minutes).
- `mark_topic`: chooses the topic whose offset carries a stream's progress record in the group.
- `metrics`: reports and counts of a sink, for a person, a listener, and Spark's metrics system.
- `options`: parses the sink's options: those of Spark (``kafka.*``, ``topic``) and those of a producer.
- `progress_listener`: joins Spark's progress of each batch of a stream (StreamingQueryProgress) with the sink's report of the
  batch.
- `row_writing`: writes the rows of one frame as part of a transaction: by Spark's tasks, by the driver, or gathered and written by
  the driver.
- `session_setup`: prepares a session for the sink and the sources: the package on its executors, the name ``ottla``, and checked
  settings.
- `small_batches`: gathers the rows of small batches in the driver, which writes them itself.
- `spark_metrics`: the counts of a sink in Spark's metrics system, so that every configured reporter (Prometheus' servlet, JMX)
  shows them.
- `stream_writer`: ``frame.writeStream.format("ottla")``: the exactly-once sink as a data source, for streams without foreachBatch.
- `task_writer`: writes the rows of a task as batches of one shared transaction.
- `transaction`: a transaction that many tasks share.
"""
