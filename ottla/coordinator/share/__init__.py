"""Share groups (KIP-932): the share coordinator, one shard a partition of ``__share_group_state``, and the share partition."""
