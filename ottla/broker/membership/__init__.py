"""A broker as a member of a cluster whose controller is another process: registration, heartbeats, replication of the metadata log.

- `controller_log`: the metadata log on a broker that only reads it, because a controller elsewhere writes it.
- `directory_assignments`: reports to the controller the log directory of this broker's replicas (KIP-858; AssignmentsManager of
  Kafka).
- `forwarding`: forwards clients' requests that the controller must handle, in envelopes (KIP-590; ForwardingManager).
- `joined_metadata`: the cluster's metadata on a broker that fetches it from a controller elsewhere.
- `lifecycle`: state machine of a broker's registration and heartbeats, without clock and connection (BrokerLifecycleManager of
  Kafka).
- `membership`: connects `BrokerLifecycle` and `MetadataFetch` to the controller.
- `metadata_copy`: this broker's copy of the cluster's metadata log (KafkaMetadataLog).
- `metadata_fetch`: fetches the metadata log as an observer, without a connection (KafkaRaftClient as a follower).
- `metadata_replica`: an observer's replica of the metadata log: applies committed batches, and queues batches above the high
  watermark.
- `producer_ids`: blocks of producer ids from a controller elsewhere (RPCProducerIdManager).
- `snapshot_fetch`: fetches a snapshot of the cluster's metadata piece by piece, without a connection (KIP-630).
- `states`: the states of a broker in its cluster (org.apache.kafka.metadata.BrokerState), and the allowed transitions.
- `topic_creation`: has the controller create topics that the broker needs or a client's Metadata request names
  (AutoTopicCreationManager).
"""
