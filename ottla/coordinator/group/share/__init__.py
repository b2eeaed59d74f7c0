"""Share groups (KIP-932): the broker computes assignments, several members may share a partition, and a member reaches its target
at once.

- `group`: a share group, as its records describe it.
- `groups`: all share groups of a shard: their decisions, their deadlines, and the replay of their records.
- `heartbeat`: decides a heartbeat.
- `initialization`: decides which partitions' states the share coordinator must initialize.
- `member`: a member of a share group.
- `offsets`: sets start offsets of a share group, and deletes its states, both for admins (KIP-932).
- `records`: records of share groups in ``__consumer_offsets``, in Kafka's own schemas.
- `requests`: requests, responses and configuration of share groups.
"""
