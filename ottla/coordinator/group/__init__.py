"""The group coordinator: groups of the classic, consumer, streams and share protocols, and committed offsets.

A `shard.GroupShard` is the state of one partition of ``__consumer_offsets``.

- `consumer_protocol`: the data that consumers of the classic protocol embed in JoinGroup and SyncGroup.
- `deadlines`: finds the groups of a shard that have an expired deadline.
- `epochs`: member and group epochs with a special meaning, in groups whose assignments the broker computes (KIP-848, KIP-932,
  KIP-1071).
- `member_ids`: generates member ids in Kafka's two formats, which tools and users recognise.
- `migration`: converts groups with members to the other protocol, in both directions (KIP-848, group.consumer.migration.policy).
- `named_topics`: limits how many topics members may subscribe to by name, because each change of a member reads all of them.
- `offsets`: committed and pending offsets.
- `records`: records of ``__consumer_offsets``: group metadata and committed offsets.
- `requests`: requests, responses and configuration of classic groups and of offsets.
- `shard`: one partition of ``__consumer_offsets``: its groups and their offsets.
- `subscriptions`: finds the topics that match a subscribed regular expression (KIP-848).
- `topics`: the interface of the group coordinator to the cluster's topics.
- `view`: the interface of a group of any protocol for offsets, listings and deletions.
"""
