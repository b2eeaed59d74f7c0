"""Apache Kafka's on-disk format: the log of each partition, and the files that are derived from logs.

The package reads and writes files only, and does so through one `Filesystem`.

- `background_sync`: brings closed segments to the disk and moves recovery points, so that a start after a crash need not read those
  segments.
- `checkpoint_writer`: writes the checkpoints of a log directory from its open logs (LogManager.checkpointRecoveryOffsetsInDir and
  its neighbours).
- `checkpoints`: small text files beside the logs: offset checkpoints, the leader epoch checkpoint, partition.metadata.
- `cleaning`: compacts logs: chooses a log and the part to clean, and replaces segments by cleaned ones.
- `compaction`: decides which records compaction keeps (org.apache.kafka.storage.internals.log.Cleaner and
  CleanedTransactionMetadata).
- `config`: the settings of one log.
- `filesystem`: `Filesystem`, the only way from this package to files.
- `following`: appends what a follower has fetched from its leader: batches with the offsets and leader epochs that they have there.
- `growth`: how far the directory of one broker is on its way to that of a cluster (``ottla cluster grow``).
- `identity`: to which cluster and node a log directory belongs: meta.properties
  (org.apache.kafka.metadata.properties.MetaProperties).
- `indexes`: offset and time index of a segment (org.apache.kafka.storage.internals.log.OffsetIndex and TimeIndex).
- `invariants`: asserts about the whole state of a log, which hold after every append.
- `last_stop`: the checkpoints of a log directory as the last stop or crash has left them.
- `log`: a partition's log: segments, producer state, offsets (org.apache.kafka.storage.internals.log.UnifiedLog).
- `log_dir`: a log directory: the lock, meta.properties, the checkpoints, and the logs in it (org.apache.kafka.storage LogManager).
- `memory`: keeps freed memory in the process, for processes that read files in large pieces.
- `names`: the names of partitions' directories, and of snapshots of the metadata log.
- `pending_deletes`: files and directories that were renamed to be removed, and are removed after `file.delete.delay.ms`.
- `pending_renames`: renames of a log's segments that the disk may refuse half-way: each is tried again until it is done.
- `producer_state`: the state of a partition's producers: their last batches, sequences, epochs and open transactions.
- `reading`: reads from a log: batches for Fetch with the list of aborted transactions, and look-ups by timestamp for ListOffsets.
- `real_filesystem`: files of the operating system.
- `rebuilding`: what a log's batches say again: producers, open transactions, transaction indexes and leader epochs.
- `recovery`: opens a log: after a clean stop from its index files, after a crash by reading every batch that may be torn
  (LogLoader).
- `replacement`: replaces all data in a data directory by other data, so that a crash leaves either the old data or the new data.
- `retention`: removes the segments of a log that are too old or exceed the log's size limit (UnifiedLog.deleteOldSegments).
- `segment`: one segment: ``.log`` with its indexes (org.apache.kafka.storage.internals.log.LogSegment).
- `snapshot`: producer snapshots (``.snapshot``): the producer state at an offset, so that a start need not read the whole log.
- `stray_directories`: stray directories: what a broker has set aside as ``NAME.ID-stray``, because it belongs to no topic.
- `transaction_history`: the transactions of a log as its batches record them: the producers' state, and every marker that was read.
- `truncation`: truncates a follower's log to where it agrees with its leader's (KIP-101, KIP-279; LocalLog.truncateTo,
  truncateFullyAndStartAt).
- `txn_index`: the aborted-transaction index of a segment (``.txnindex``): 34 bytes for each transaction, in the order of last
  offsets.
- `unchecked`: checks the bytes of a segment that an earlier process has written, when they are read for the first time.
- `walk`: reads the batches of a segment's file in pieces: a segment of any size needs the memory of one piece, or of its largest
  batch.
"""
