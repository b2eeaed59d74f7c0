"""The group coordinator: groups of the classic, consumer, streams and share protocols, and committed offsets.

One `shard.GroupShard` stands for one partition of ``__consumer_offsets``.
"""
