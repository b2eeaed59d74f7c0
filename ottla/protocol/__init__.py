"""Kafka's wire protocol: converts bytes to typed messages, headers, errors and record batches, and back.

The package is pure: it uses no clock, socket or file.

- `client_quotas`: names and codes in requests about quotas.
- `codec`: encodes and decodes whole frames of requests and responses, with their headers, and records of coordinators.
- `config_effects`: config keys of Apache Kafka that ottla accepts, but that change nothing.
- `deflating`: compresses a batch's payload piece by piece, in the format of stock clients.
- `errors`: Kafka's error codes, and the two exceptions of this package.
- `gzip_members`: decompresses the members of a gzip payload, as Java does.
- `header_keys`: replaces header keys that are not UTF-8, because aiokafka's C codec fails on them.
- `inflating`: decompresses the payload of a record batch piece by piece, with bounded time and memory for each piece.
- `internal_topics`: names of the logs in which a cluster stores its own state.
- `java_hash`: Java's hash of a string, which determines the coordinator's partition of a group id or transactional id.
- `lz4_frames`: the header of an lz4 frame, as Java reads it.
- `markers`: reads transaction markers from stored control batches.
- `primitives`: readers and writers for the primitive types of Kafka's wire protocol.
- `recompressing`: recompresses a client's batch for a topic with another ``compression.type``.
- `record_stream`: reads the records of one batch, a few at a time, with only a piece of the payload in memory.
- `records`: record batches (message format v2): headers, checks, control batches, and the coordinators' small batches.
- `remedies`: classifies error codes by how a client reacts, for `ottla.client` and `ottla.spark`.
- `rewriting`: rewrites a batch without some of its records, for compaction.
- `secrets`: which fields of messages and which configs are secrets.
- `steps`: long work as coroutines that a driver runs step by step, with other work in between.
- `topic_partition`: the name of a partition.
- `transaction_states`: the states of a transactional id, with their numbers in ``__transaction_state``.
- `uuids`: Kafka's UUIDs as text and as bytes.
- `validation`: checks a client's records before they are stored, and rejects records that consumers could not read.
- `zstd`: zstd from Python's standard library (3.14 and later) or its backport.
"""
