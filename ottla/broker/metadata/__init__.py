"""The cluster's metadata as this broker sees and changes it: topics, configs, replicas, producer ids.

- `cluster`: commands on the cluster's metadata: creates and deletes topics, sets configs and features, allocates producer ids.
- `internal_topics`: what the topics of coordinators are made with (AutoTopicCreationManager, and each coordinator's configs of its
  topic).
- `local_partitions`: the replicas that the cluster's metadata gives this broker: opens and removes their logs, and has them led and
  followed.
- `metadata_faults`: has every step of a change of the metadata carried out, whatever goes wrong with one of them.
- `metadata_log`: the log of the cluster's metadata in this broker's directory, where this broker is the controller itself.
- `metadata_publisher`: applies changes of the cluster's metadata to the broker: first to its partitions, then to the requests that
  wait for them.
- `metadata_source`: where a broker has the cluster's metadata from: its own log (`own_metadata`), or a controller elsewhere
  (`membership`).
- `own_metadata`: the cluster's metadata on a broker that is its own controller: state, log and commands.
- `placement`: on which brokers the partitions of new topics lie, for the commands that create them.
- `producer_ids`: allocates producer ids that were never used before (RPCProducerIdManager).
- `request_topics`: the topics of requests that name them by ids, or name a fetch session alone, as this broker knows them.
- `strays`: the stray directories of this broker, as health, ``ottla cluster``, the console, the control API and the metrics show
  them.
"""
