"""Classic consumer groups, in which the leader assigns partitions to the members (JoinGroup, SyncGroup).

- `effects`: changes of classic groups in memory that follow once a decision's records are in the log (`Membership.apply`).
- `group`: a classic group and its members (org.apache.kafka.coordinator.group.classic.ClassicGroup).
- `membership`: joining, syncing, heartbeats and leaving in classic groups (GroupMetadataManager.classicGroup* of Kafka).
- `rebalance`: the rebalance of a classic group: for which members it waits, when the generation is complete, and who is removed.
- `view`: a classic group as a `GroupView`: for offsets, listings and deletions (ClassicGroup of Kafka).
"""
