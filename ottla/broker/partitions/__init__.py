"""The partitions of this broker: logs, high watermarks and their waiters, durability, and handling of disk errors.

- `barrier`: delays responses and effects until the writes on which they depend are committed and durable.
- `disk_errors`: handles failed writes to a log, and damaged files.
- `disk_health`: tracks whether the log directory accepts writes, for `ottla health`, the metrics and the log, and stops all writes
  after a failed sync or the loss of the directory's lock.
- `durability`: syncs files before writes are acknowledged (``ottla.durability=power``).
- `housekeeping`: runs periodic tasks in the background: retention, compaction, checkpoints, and tasks of other parts.
- `kernel`: the parts that nearly every other part of a broker or of a controller uses.
- `latest_records`: reads a coordinator's log and skips most records that a later record of the same key replaces.
- `partitions`: the partitions of which this broker has a replica: their logs, and the requests that wait for changes.
- `recovery_audit`: finds, in the data that recovery reads, transactions that lost records or markers in a crash.
- `replication_wait`: waits until all in-sync replicas have the batches of a request (DelayedProduce).
- `runtime`: carries out a coordinator's decisions: appends records to its log, replays them, carries out effects
  (CoordinatorRuntime).
"""
