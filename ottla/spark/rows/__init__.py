"""Rows as columns: which columns the sink takes, the partition of each row, and batches made of them.

- `encoding`: encodes columns as record batches, which `segments.columns` can read.
- `murmur2`: Kafka's partitioner for whole columns (org.apache.kafka.common.utils.Utils.murmur2,
  BuiltInPartitioner.partitionForKey).
- `partitioner`: chooses the partition of each record, over whole columns.
- `rows`: the columns that the sink takes and the sources give, with Spark's types.
- `spark_partitioner`: gives Spark's rows the partitions of their topics.
"""
