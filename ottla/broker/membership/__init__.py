"""A broker as a member of a cluster whose controller is another process: registration, heartbeats, the metadata log followed.

- `controller_log`: the metadata's log where a controller elsewhere writes it, and this broker only reads it.
- `directory_assignments`: tells the controller in which log directory this broker's replicas are (KIP-858; AssignmentsManager of
  Kafka).
- `forwarding`: clients' requests that belong to the controller, forwarded to it in envelopes (KIP-590; ForwardingManager).
- `joined_metadata`: the cluster's metadata where the controller is elsewhere: fetched from it, and followed by this broker.
- `lifecycle`: a broker's registration and heartbeats, without a clock and a connection (BrokerLifecycleManager of Kafka).
- `membership`: carries out a broker's membership: sends what `BrokerLifecycle` and `MetadataFetch` want, and hands them the
  answers.
- `metadata_copy`: this broker's copy of the cluster's metadata log, in ``__cluster_metadata-0`` of its log directory
  (KafkaMetadataLog).
- `metadata_fetch`: the cluster's metadata log as an observer fetches it, without a connection (KafkaRaftClient's follower side).
- `metadata_replica`: what an observer has of the cluster's metadata log: batches behind the high watermark wait, committed ones are
  applied.
- `producer_ids`: blocks of producer ids from a controller elsewhere (RPCProducerIdManager).
- `snapshot_fetch`: a snapshot of the cluster's metadata, fetched piece by piece, without a connection (KIP-630).
- `states`: the states of a broker in its cluster (org.apache.kafka.metadata.BrokerState), and which may follow which.
- `topic_creation`: asks the controller for topics that the broker needs, or that a client's Metadata request names
  (AutoTopicCreationManager).
"""
