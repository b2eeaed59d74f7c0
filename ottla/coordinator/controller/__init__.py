"""The decisions of a controller: registrations, placement, elections, in-sync replicas, reassignment. Pure, over `ClusterState`.

- `directories`: assigns a broker's replicas to its log directories.
- `elections`: elects leaders, and builds the record of every change of a partition.
- `heartbeats`: broker sessions and the result of a heartbeat: fencing, unfencing, controlled shutdown.
- `in_sync`: changes of the in-sync replicas that a leader requests.
- `placement`: places replicas of new partitions: striped over racks, or as a client assigns them.
- `policies`: reads the configs, features and registrations that decisions about a partition depend on.
- `reassignment`: moves partitions to other brokers: starts, cancels and lists reassignments (KIP-455).
- `registrations`: registers brokers and controllers, and unregisters brokers.
"""
