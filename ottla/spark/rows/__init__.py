"""Processes rows as whole columns: checks their types, chooses partitions, and encodes record batches.

- `encoding`: encodes columns as record batches, the inverse of `segments.columns`.
- `murmur2`: Kafka's partitioner for whole columns of keys.
- `partitioner`: chooses the partition of each row of Arrow columns.
- `rows`: the columns that the sink accepts and the sources return, with Spark's types.
- `spark_partitioner`: adds the partition of each row to a Spark frame.
"""
