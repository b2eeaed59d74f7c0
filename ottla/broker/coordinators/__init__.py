"""Runs the coordinators: appends the records of each command of `ottla.coordinator` to a log, replays them, and responds.

A coordinator has a shard for each partition of its topic that this broker leads. A shard is loaded when this broker becomes the
leader, and dropped when it no longer leads.

- `completion`: completes a decided transaction: sends its markers, then logs the Complete record (TransactionCoordinator, KIP-98).
- `coordinators`: builds the coordinators of a broker, passes metadata changes to them, and starts their periodic tasks.
- `dead_letters`: writes a dead letter for each record that a share group has given up (KIP-1191).
- `groups`: runs the group coordinator: one shard for each partition of ``__consumer_offsets``.
- `fencing_log`: logs an event when a new producer of a transactional id fences the previous one.
- `lost_additions`: adds partitions again to open transactions if a power cut removed the record that added them.
- `markers`: sends the markers of decided transactions until each partition has its marker (TransactionMarkerChannelManager).
- `shards`: the shards of a coordinator: one for each partition of its topic that this broker leads (CoordinatorRuntime).
- `share_groups`: the group coordinator's calls to the share coordinator: initialise, delete and read states of share groups.
- `share_partitions`: the share partitions in memory (SharePartitionManager of Kafka).
- `share_states`: runs the share coordinator: one shard for each partition of ``__share_group_state``.
- `transactions`: runs the transaction coordinator: one shard for each partition of ``__transaction_state``.
- `verification`: verifies with the transaction coordinator that a batch is in an open transaction, before a partition's first
  append (KIP-890).
"""
