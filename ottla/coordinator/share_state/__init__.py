"""Share groups (KIP-932): the share coordinator, with one shard for each partition of ``__share_group_state``, and share
partitions."""
