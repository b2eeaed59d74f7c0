"""Kafka's wire protocol: converts bytes to typed messages, headers, errors and record batches, and back.

The package is pure: it uses no clock, socket or file.

- `codec`: encodes and decodes whole frames of requests and responses, with their headers, and records of coordinators.
- `deflating`: compresses a batch's payload piece by piece, in the format of stock clients: one stream, or xerial's blocks for
  snappy.
- `errors`: Kafka's error codes, and the two exceptions of this package.
- `gzip_members`: inflates the members of a gzip payload, as Java does (GZIPInputStream).
- `header_keys`: replaces header keys that are not UTF-8, because aiokafka's C codec fails on them.
- `inflating`: inflates the payload of a record batch piece by piece, with bounded time and memory for each piece.
- `internal_topics`: names of the logs in which a cluster stores its own state (org.apache.kafka.common.internals.Topic).
- `java_hash`: Java's hash of a string, by which Kafka assigns a group id or a transactional id to a partition of its coordinator's
  topic.
- `lz4_frames`: the header of an lz4 frame, as Java reads it (Lz4BlockInputStream).
- `markers`: reads transaction markers from stored control batches.
- `primitives`: readers and writers for the primitive types of Kafka's wire protocol.
- `recompressing`: recompresses a client's batch for a topic with another ``compression.type``.
- `record_stream`: reads the records of one batch, a few at a time, with only a piece of the payload in memory.
- `records`: record batches (message format v2): headers, checks, control batches, and the coordinators' small batches.
- `remedies`: classifies error codes by how a client reacts, for `ottla.client` and `ottla.spark`.
- `rewriting`: rewrites a batch without some of its records, for compaction (MemoryRecords.filterTo,
  DefaultRecordBatch.writeEmptyHeader).
- `steps`: long work as coroutines that a driver runs step by step, with other work in between.
- `topic_partition`: the name of a partition (org.apache.kafka.common.TopicPartition).
- `transaction_states`: the states of a transactional id, with their numbers in ``__transaction_state``.
- `uuids`: Kafka's UUIDs as text and as bytes (org.apache.kafka.common.Uuid).
- `validation`: checks a client's records before they are stored (LogValidator), and refuses records that consumers could not read.
- `zstd`: zstd from Python's standard library (3.14 and later) or its backport.
"""
