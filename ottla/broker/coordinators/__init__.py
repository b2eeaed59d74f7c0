"""The coordinators at work on their logs: each command of `ottla.coordinator` is appended, replayed and answered here.

A coordinator leads a partition of its topic. It is loaded when this broker becomes the leader, and dropped whole when it resigns.

- `completion`: what follows a decided transaction: its markers, and then the record that completes it (TransactionCoordinator,
  KIP-98).
- `dead_letters`: dead-letter topics of share groups (KIP-1191): where the records go that a group has given up.
- `groups`: runs the group coordinator: one shard for each partition of ``__consumer_offsets``.
- `id_owners`: logs a line when a producer takes over a transactional id and thereby fences the producer before.
- `lost_partitions`: partitions that a power cut has taken from their open transaction: which they are, and when nothing may be lost
  like that.
- `markers`: the second phase of a transaction: sends markers to every partition, until all are written
  (TransactionMarkerChannelManager).
- `shards`: the shards of a coordinator: one for each partition of its topic that this broker leads (CoordinatorRuntime).
- `share_groups`: the group coordinator's calls to the share coordinator: initialise, delete and read states of share groups.
- `share_partitions`: keeps share partitions in memory (SharePartitionManager of Kafka).
- `share_states`: runs the share coordinator: one shard for each partition of ``__share_group_state``.
- `sweeps`: the timed work of the coordinators of groups and of transactions: time-outs, and the expiry of ids and offsets.
- `transactions`: runs the transaction coordinator: one shard for each partition of ``__transaction_state``.
- `verification`: asks the transaction coordinator whether a batch belongs to an open transaction, before a partition's first append
  (KIP-890).
"""
