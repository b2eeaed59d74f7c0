"""Code that several handlers share, and parts of long handlers. No module here declares an API.

- `acl_messages`: converts between ACLs and the elements of the messages of CreateAcls, DeleteAcls and DescribeAcls.
- `batch_verification`: verifies transactional batches of Produce with the transaction coordinator before their append (KIP-890).
- `brokers`: the brokers of the cluster, with their addresses on a listener (KRaftMetadataCache).
- `checked_batch`: checks one batch of a Produce request without appending it: partition, header, CRC and records (LogValidator).
- `common`: helpers of several handlers: names and ids of topics, authorised operations, error codes by version.
- `config_changes`: checks and applies changes of configs for AlterConfigs and IncrementalAlterConfigs.
- `config_permissions`: the permissions on resources with configs.
- `configs`: the current configs with their sources and synonyms, as DescribeConfigs shows them (kafka.server.ConfigHelper).
- `current_leaders`: the current leader of a partition, for a Produce or Fetch response of a broker that does not lead it (KIP-951).
- `each`: helpers for requests with many items: items are handled one after the other, in steps if they are many.
- `fetch_answers`: builds Fetch's response, and its partitions without records.
- `first_topics`: creates topics when a broker starts, before it accepts requests.
- `first_users`: creates SCRAM users when a broker or controller starts, before it accepts requests.
- `group_descriptions`: describes consumer, streams and share groups, one after the other, each with its own error.
- `loggers`: log levels as configs of the resource BROKER_LOGGER (KIP-412).
- `parked_fetch`: parks a fetch until there is data and room in the response budget, or until its timeout (DelayedFetch).
- `produce_append`: appends the batches of a Produce request, and waits until all in-sync replicas have them (DelayedProduce).
- `produce_compression`: recompresses batches of Produce for topics with a ``compression.type``.
- `produce_partition`: finds the partition of a batch in a Produce request.
- `produce_refusals`: errors of Produce: for a whole request, and for a partition whose batch was refused.
- `quorum_changes`: checks that a request of AddRaftVoter or RemoveRaftVoter has a voter and is for this cluster (KafkaRaftClient).
- `refused_batch`: reports a batch that Produce refused to the listener of transaction histories.
- `share_acknowledgements`: handles acknowledgements of acquired records in ShareFetch and ShareAcknowledge
  (KafkaApis.handleAcknowledgements).
- `share_leaders`: the current leader of a partition, for a share group member that contacted another broker
  (KafkaApis.getCurrentLeader).
- `share_reads`: reads a share partition, acquires records for a member, and returns the batches with acquired records.
- `share_state_requests`: handles the share partitions of a request one after the other, for the five APIs of share states.
- `token_requests`: refuses requests for delegation tokens from clients that may not send them (KIP-48).
"""
