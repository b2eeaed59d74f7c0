"""Classic consumer groups, in which the leader assigns partitions to the members (JoinGroup, SyncGroup).

- `effects`: changes of classic groups in memory that follow once a decision's records are in the log (`ClassicMembership.apply`).
- `group`: a classic group and its members.
- `membership`: joining, syncing, heartbeats and leaving in classic groups.
- `rebalance`: the rebalance of a classic group: waiting for members, removing late members and completing the generation.
- `view`: a classic group as a `GroupView`: for offsets, listings and deletions.
"""
