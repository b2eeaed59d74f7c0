"""Classic consumer groups, in which the leader assigns partitions to the members (JoinGroup, SyncGroup)."""
