"""The cluster's metadata as this broker sees and changes it: topics, configs, replicas, producer ids.

- `cluster`: commands on the cluster's metadata: creates and deletes topics, sets configs and features, allocates producer ids.
- `internal_topics`: partition counts and configs of the coordinators' topics (AutoTopicCreationManager).
- `local_partitions`: opens and removes the replicas that the metadata assigns to this broker, and makes them leaders or followers.
- `metadata_listener`: the events of the cluster's metadata that other parts of the broker follow, and handling of failures.
- `metadata_log`: the metadata log in the directory of a broker that is its own controller.
- `metadata_publisher`: applies changes of the cluster's metadata to the broker: first to its partitions, then to its
  coordinators.
- `metadata_source`: the source of a broker's metadata: its own log (`own_metadata`), or a controller elsewhere (`membership`).
- `own_metadata`: the cluster's metadata on a broker that is its own controller: state, log and commands.
- `placement`: chooses the brokers for the partitions of new topics.
- `producer_ids`: allocates producer ids that were never used before (RPCProducerIdManager).
- `request_topics`: resolves the topics of requests that contain only topic ids or a fetch session id.
- `strays`: the stray directories of this broker, for health, ``ottla cluster``, the console, the control API and the metrics.
"""
