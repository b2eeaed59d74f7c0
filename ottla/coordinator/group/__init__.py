"""The group coordinator: the classic rebalance protocol and committed offsets, one shard a partition."""
