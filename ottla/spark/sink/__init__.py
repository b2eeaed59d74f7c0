"""The exactly-once sink: Spark's tasks write each micro-batch in one transaction, which the driver begins and ends.

- `arranging`: `arranged`, which brings all rows of a partition to one task, for ``format("ottla")``.
- `arrow_results`: collects rows in Arrow format in the driver, up to a limit.
- `attempts`: checks that Spark ran the tasks of a batch only once.
- `batch_sender`: sends the batches of a shared transaction to the leaders of their partitions.
- `datasource`: ``format("ottla")``: segment files as a batch or streaming source, and the exactly-once sink.
- `driver`: transactions that only the driver writes to, for clusters without transaction version 2.
- `exactly_once`: writes one micro-batch in one transaction, unless the batch was committed before.
- `foreach_batch`: the exactly-once sink for foreachBatch.
- `frame_numbers`: checks of a frame's number, and whether a stream uses the transactional id.
- `frame_writer`: ``frame.write.format("ottla")``: writes a frame that is not a stream once, by its name and number.
- `frames`: `write_once`, which writes a frame that is not a stream once.
- `id_claim`: checks that no other stream uses a transactional id.
- `keepalive`: renews the progress records of idle streams before they expire.
- `mark_topic`: chooses the topic whose committed offset has the progress record as metadata.
- `metrics`: reports and counts of a sink.
- `options`: parses the sink's options.
- `producer_options`: options of Kafka's producer that the sink does not need.
- `progress_listener`: combines Spark's progress of a batch with the sink's report.
- `row_writing`: writes the rows of one frame as part of a transaction.
- `sequences`: the next sequence of each partition that the tasks of one transaction write to.
- `session_setup`: prepares a Spark session for the sink and the sources, and checks its settings.
- `several_sinks`: several sinks in one foreachBatch.
- `small_batches`: gathers the rows of small batches in the driver.
- `spark_metrics`: the counts of a sink in Spark's metrics system.
- `stream_writer`: ``frame.writeStream.format("ottla")``: the exactly-once sink for streams without foreachBatch.
- `task_writer`: writes the rows of a task as batches of one shared transaction.
- `transaction`: a transaction that many tasks share.
"""
