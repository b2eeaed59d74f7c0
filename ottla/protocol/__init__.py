"""Kafka's wire protocol: converts bytes to typed messages, headers, errors and record batches, and back.

The package is pure: it uses no clock, socket or file.

- `codec`: encodes and decodes whole frames of requests and responses, with their headers, and coordinators' records.
- `deflating`: compresses a batch's payload piece by piece, in the format of stock clients: one stream, or xerial's blocks for
  snappy.
- `errors`: Kafka's error codes, and the two exceptions of this package.
- `gzip_members`: inflates the members of a gzip payload, as Java does (GZIPInputStream).
- `header_keys`: makes records readable whose header keys are not UTF-8, on which aiokafka's C codec fails.
- `inflating`: inflates the payload of a record batch piece by piece: time and memory for a piece are bounded, however large the
  payload is.
- `internal_topics`: names of the logs in which a cluster keeps its own state (org.apache.kafka.common.internals.Topic).
- `java_hash`: java's hash of a string, by which Kafka assigns a group id or a transactional id to a partition of its coordinator's
  log.
- `lz4_frames`: the header of an lz4 frame, as Java reads it (Lz4BlockInputStream).
- `markers`: transaction markers as they are read from stored control batches.
- `primitives`: readers and writers for the primitive types of Kafka's wire protocol.
- `recompressing`: compresses a client's batch anew, for a topic whose ``compression.type`` is another one than the batch has.
- `record_stream`: reads the records of one batch, a few at a time, in bounded memory: only a piece of the payload is kept.
- `records`: record batches (message format v2): headers, checks, control batches, and the coordinators' small batches.
- `remedies`: the remedies of clients for error codes, shared by `ottla.client` and `ottla.spark`.
- `rewriting`: rewrites a batch without some of its records, for compaction (MemoryRecords.filterTo,
  DefaultRecordBatch.writeEmptyHeader).
- `steps`: long work as a generator of steps, so that its caller can run other work between two steps.
- `topic_partition`: the name of a partition, shared by all rooms (org.apache.kafka.common.TopicPartition).
- `transaction_states`: the states of a transactional id, with their numbers in ``__transaction_state``, and the version of
  transactions.
- `uuids`: Kafka's UUIDs: their text, and which ones are given out (org.apache.kafka.common.Uuid).
- `validation`: checks a client's records one by one before they are stored (LogValidator), and refuses records that consumers could
  not read.
- `zstd`: zstd as Python has it from 3.14 on, and before it by a package that is the same.
"""
