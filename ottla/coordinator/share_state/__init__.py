"""The state machines of the share coordinator (one shard for each partition of ``__share_group_state``) and of share partitions.

Both are of KIP-932. A share partition is a topic partition as one share group sees it.

- `acquisition`: decides which fetched records a member acquires, and in which batches.
- `batches`: the persisted state of the records in a share partition: ranges of offsets with the same state and delivery count.
- `changes`: the pending changes of a command to the records in a share partition, and which of them to persist.
- `in_flight`: the records of a share partition that are in flight: their states, delivery counts and members.
- `partition`: a share partition: the records of a topic partition in the view of one share group.
- `records`: records of ``__share_group_state``: a snapshot has the whole state of a share partition, an update only changes.
- `requests`: requests, responses and configuration of the share coordinator.
- `sessions`: share sessions: the partitions that a member fetches, so that requests need not list them each time.
- `shard`: one partition of ``__share_group_state``: the decisions about its share partitions.
- `states`: the states of a record in a share partition, and the transitions between them.
"""
