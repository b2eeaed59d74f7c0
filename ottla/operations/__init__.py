"""Operations on the data directory of a stopped broker: graduating, adopting, auditing, recovering. No event loop and no sockets.

- `adoption`: adopts topics from an Apache Kafka data directory, a single partition, or files without metadata.
- `audit`: finds torn transactions, which lost records or markers in a crash.
- `cluster_growth`: ``ottla cluster grow``: converts the directory of one broker to the directory of a cluster.
- `controller_directory`: writes the directory of a controller.
- `controller_rebuilding`: ``ottla cluster rebuild-controller``: creates a controller's directory from its brokers' directories.
- `copying`: copies a partition's files from one data directory to another.
- `directory_audit`: ``ottla audit``: compares each transaction's outcome at its coordinator with the markers in the partitions.
- `graduation`: converts a data directory for Apache Kafka.
- `grown_metadata`: creates the metadata of the cluster that ``ottla cluster grow`` makes from one broker.
- `guards`: checks of a directory before an operation: no broker has it open, and its logs are regular files.
- `kafka_metadata`: reads the cluster's metadata in a directory of Apache Kafka or ottla.
- `log_ends`: the offsets up to which the logs of a directory are durable.
- `metadata_log`: the cluster's metadata log in a data directory: its settings, the feature levels of a new log, and its replay.
- `new_directory`: creates a directory atomically.
- `own_metadata`: reads the metadata of a directory whose broker is its own controller.
- `partition_directories`: rebuilds topics from the partition directories of a cluster's brokers.
- `replicas`: finds the logs of a directory that have replicas on other brokers, as far as the directory shows.
- `retained_metadata`: metadata that an adoption imports with the topics, such as quotas and ACLs.
- `salvage`: ``ottla recover``: replaces damaged parts of logs with batches that contain no records.
- `segments`: reads the segment files of a directory batch by batch, in bounded memory, and reports the progress.
- `snapshots`: snapshots: copies of the data directory of a stopped broker, for tests that start from an earlier state.
- `stray_reports`: reports of stray directories, with the command that recovers the data.
- `stray_sources`: stray directories as the source of an adoption: all partitions of one topic that a broker has set aside.
"""
