"""Classic consumer groups: members hand the assignment out themselves (JoinGroup, SyncGroup)."""
