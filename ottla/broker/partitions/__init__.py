"""The partitions of this broker: logs, high watermarks and their waiters, durability, and what happens when a disk fails.

- `barrier`: decides when an answer to a client, or an effect of a decision, may happen: after the writes that it depends on are
  durable.
- `disk_errors`: what becomes of a log that the disk refuses, or whose files are damaged.
- `disk_health`: tracks whether the log directory accepts writes, for `ottla health`, the metrics and the log.
- `disk_stop`: ends all writes to a log directory that cannot be trusted with them any more.
- `durability`: syncs files before writes are acknowledged (``ottla.durability=power``).
- `housekeeping`: repeats timed work in the background: retention, compaction, checkpoints, and the timed work of other parts.
- `latest_records`: reads a coordinator's log without records that a later record of the same key replaces, so that a start decodes
  fewer records.
- `partitions`: the partitions of which this broker is a replica: their logs, and the requests that wait for the logs to grow.
- `recovery_audit`: finds the transactions that have lost a part in a crash, from the data that recovery reads anyway.
- `runtime`: carries out a coordinator's decisions: appends records to its log, replays them, carries out effects
  (CoordinatorRuntime).
"""
