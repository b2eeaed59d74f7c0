"""What a controller decides: registrations, placement, elections, in-sync replicas, reassignment. Pure, over `ClusterState`.

- `directories`: a broker says in which of its log directories it keeps its replicas
  (ReplicationControlManager.handleAssignReplicasToDirs).
- `elections`: who leads a partition, and every other change of one, in a single builder (Kafka's PartitionChangeBuilder).
- `heartbeats`: brokers' sessions and what a heartbeat decides: fencing, unfencing, controlled shutdown (BrokerHeartbeatManager).
- `in_sync`: a leader asks for other in-sync replicas (AlterPartition; ReplicationControlManager.alterPartition).
- `placement`: on which brokers a new partition's replicas lie: striped over racks, or as a client assigns them
  (StripedReplicaPlacer).
- `policies`: what the cluster's configs, features and registrations say to a decision about a partition.
- `reassignment`: moves partitions to other brokers: begins, cancels and lists reassignments (ReplicationControlManager, KIP-455).
- `registrations`: brokers and controllers that register themselves, and brokers that are unregistered (ClusterControlManager).
"""
