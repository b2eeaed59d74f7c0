"""What a leader and its followers decide about a partition's replicas. Pure: offsets and times come as arguments.

- `follower`: what a follower does with its leader's answer (kafka.server.AbstractFetcherThread, ReplicaFetcherThread).
- `in_sync`: the in-sync set of a partition as its leader knows it, and the changes that the leader asks the controller for
  (KIP-497).
- `leader`: what the leader of a partition knows of its followers, and what it decides from it (kafka.cluster.Partition, Replica).
- `read_replica`: from which replica a consumer should read (KIP-392, RackAwareReplicaSelector,
  ReplicaManager.findPreferredReadReplica).
"""
