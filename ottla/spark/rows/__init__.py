"""Rows as columns: the columns that the sink accepts, the partition of each row, and encoded batches.

- `encoding`: encodes columns as record batches, the inverse of `segments.columns`.
- `murmur2`: Kafka's partitioner for whole columns (org.apache.kafka.common.utils.Utils.murmur2,
  BuiltInPartitioner.partitionForKey).
- `partitioner`: chooses the partition of each record, over whole columns.
- `rows`: the columns that the sink accepts and the sources return, with Spark's types.
- `spark_partitioner`: adds the partition of each row to a frame of Spark.
"""
