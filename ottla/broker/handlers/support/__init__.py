"""Code that several handlers share, or that a handler is too long without. No module here declares an API.

- `batch_verification`: the part of Produce that asks the transaction coordinator about transactional batches before their append
  (KIP-890).
- `brokers`: the brokers of the cluster as clients of a listener may reach them (KRaftMetadataCache).
- `common`: helpers of several handlers: names and ids of topics, authorised operations, error codes of versions.
- `config_changes`: checks and applies changes of configs for AlterConfigs and IncrementalAlterConfigs.
- `configs`: the current configs with their sources and synonyms, as DescribeConfigs shows them (kafka.server.ConfigHelper).
- `current_leaders`: the current leader of a partition, for a Produce or Fetch response of a broker that does not lead it (KIP-951).
- `each`: helpers for requests with many items: items are handled one after the other, in steps where they are many.
- `fetch_answers`: parts of Fetch's response: partitions without records, and the whole response.
- `first_topics`: creates topics when a broker starts, before it accepts requests.
- `group_descriptions`: describes consumer, streams and share groups, one after the other, each with its own error.
- `loggers`: log levels as configs of the resource BROKER_LOGGER (KIP-412).
- `parked`: a fetch that waits for more data, for room in the budget of responses, or for its time-out (DelayedOperation of Kafka).
- `produce_compression`: the part of Produce that gives a batch the compression that its topic is configured to have
  (``compression.type``).
- `produce_partition`: finds the partition of a batch in a Produce request.
- `produce_refusals`: refusals of Produce: the errors for a request as a whole, and the response for a partition whose batch was
  refused.
- `produce_replication`: the part of Produce with acks=all that waits until all replicas in sync have the batches (DelayedProduce).
- `quorum_changes`: the check that AddRaftVoter and RemoveRaftVoter share: the request names a voter, and is for this cluster
  (KafkaRaftClient).
- `refused_batch`: reports a batch that Produce refused to the listener of transaction histories.
- `share_acknowledgements`: handles acknowledgements of acquired records in ShareFetch and ShareAcknowledge
  (KafkaApis.handleAcknowledgements).
- `share_leaders`: the current leader of a partition, for a share group member that asked another broker
  (KafkaApis.getCurrentLeader).
- `share_reads`: reads a share partition for a member, and acquires records for it; only the batches with acquired records are
  returned.
- `share_state_requests`: the frame of the five APIs of share states: handles one share partition of a request after the other.
"""
