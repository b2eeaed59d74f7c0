"""Operations on a data directory whose broker does not run: handing over, adopting, auditing. No event loop and no sockets.

- `adoption`: adopts topics from an Apache Kafka data directory: a copy of production, a single partition, or files without
  metadata.
- `audit`: finds torn transactions: compares the coordinator's decisions with the markers in their partitions.
- `cluster_growth`: ``ottla cluster grow``: makes the directory of one broker that of a cluster, whose broker 1 has its data.
- `controller_directory`: writes the directory of a controller.
- `controller_rebuilding`: ``ottla cluster rebuild-controller``: makes a controller's directory from what the directories of its
  brokers have.
- `copying`: copies a partition's files from one data directory to another.
- `directory_audit`: ``ottla audit``: reads every batch of a data directory, and compares every decision with every partition.
- `graduation`: hands a data directory over to Apache Kafka: partitions as they are, and the metadata as a KRaft bootstrap snapshot.
- `grown_metadata`: the metadata of the cluster that one broker becomes.
- `guards`: checks of a directory before an operation: no broker has it open, and its logs are regular files.
- `kafka_metadata`: reads the cluster's metadata in a directory, Apache Kafka's or ottla's: the newest snapshot, then the log behind
  it (KIP-630).
- `log_ends`: the durable ends of a directory's logs: damage below them is not a torn end.
- `metadata_log`: the cluster's metadata log in a data directory: its settings, the feature levels of a new one, and its replay.
- `new_directory`: a directory that appears as a whole or not at all.
- `own_metadata`: reads the metadata of a directory whose broker is its own controller.
- `partition_directories`: the partition directories of a cluster's brokers: which topics they belong to, and topics made of them
  alone.
- `replicas`: which logs of a directory have replicas on other brokers, as far as the directory itself says.
- `retained_metadata`: what a cluster stores beside its topics and an adoption takes over: quotas, credentials, configs of groups
  and client metrics.
- `salvage`: ``ottla recover``: finds the damaged parts of logs in a directory at rest, and replaces them by batches without
  records.
- `segments`: reads the segment files of a directory batch by batch, in bounded memory, and reports the progress.
- `snapshots`: snapshots: copies of a data directory whose broker does not run.
- `stray_sources`: stray directories as the source of an adoption: all partitions of one topic that a broker has set aside.
- `stray_reports`: what a person is told of stray directories: which topic's data they have, what hides it, and the way back.
"""
