"""Apache Kafka's on-disk format: the log of each partition, and the files that are derived from logs.

The package only reads and writes files, through one `Filesystem`.

- `background_sync`: syncs closed segments and moves recovery points.
- `checkpoint_writer`: writes the checkpoints of a log directory from its open logs.
- `checkpoints`: small text files next to the logs: offset checkpoints, the leader epoch checkpoint, partition.metadata.
- `log_cleaner`: compacts logs.
- `compaction_rules`: decides which records compaction keeps.
- `config`: the settings of one log, with the names and defaults of Kafka's topic configs.
- `filesystem`: the `Filesystem` and `File` protocols, through which this package accesses all files.
- `following`: appends the batches that a follower has fetched.
- `growth`: the progress of turning one broker's directory into that of a cluster (``ottla cluster grow``).
- `identity`: the cluster and node that a log directory belongs to: meta.properties.
- `indexes`: offset and time index of a segment.
- `invariants`: assertions about the whole state of a log, which hold after every append.
- `last_stop`: the checkpoints of a log directory as the last stop or crash left them.
- `log`: a partition's log: segments, producer state, offsets.
- `log_dir`: a log directory: the lock, meta.properties, the checkpoints, and the logs in it.
- `memory`: keeps freed memory in the process, for processes that read files in large pieces.
- `names`: the names of partition directories, and of snapshots of the metadata log.
- `pending_deletes`: files and directories that were renamed for deletion and are removed after `file.delete.delay.ms`.
- `pending_renames`: renames of a log's segments, each retried until it succeeds.
- `producer_state`: the state of a partition's producers: their last batches, sequences, epochs and open transactions.
- `reading`: reads from a log: batches for Fetch, and offsets by timestamp for ListOffsets.
- `real_filesystem`: implements `Filesystem` with the files of the operating system.
- `rebuilding`: rebuilds state from a log's batches: producers, open transactions, transaction indexes and leader epochs.
- `recovery`: opens a log after a clean stop or a crash.
- `replacement`: replaces all data in a data directory atomically.
- `retention`: removes the segments of a log that are too old or exceed the log's size limit.
- `segment`: one segment: ``.log`` with its indexes.
- `snapshot`: producer snapshots (``.snapshot``): the producer state at an offset.
- `stray_directories`: directories of partitions whose topic does not exist.
- `transaction_history`: the transactions recorded in a log's batches.
- `truncation`: truncates a follower's log to the offset up to which it agrees with its leader's log (KIP-101, KIP-279).
- `txn_index`: the aborted-transaction index of a segment (``.txnindex``).
- `unchecked`: checks the bytes of a segment that an earlier process wrote, when they are read for the first time.
- `walk`: reads the batches of a segment's file in pieces, in bounded memory.
"""
