"""Share groups (KIP-932): the share coordinator, with one shard for each partition of ``__share_group_state``, and share
partitions.

- `acquisition`: decides which of the records that were just read a member acquires, and in which batches (SharePartition.acquire of
  Kafka).
- `batches`: the persisted state of the records in a share partition: runs of offsets with the same state and delivery count.
- `changes`: what a command is about to change of the records in a share partition, and what is to be persisted.
- `in_flight`: the records of a share partition that are in flight: their states, delivery counts, and the members that have them.
- `partition`: a share partition: the records of a topic partition, as one share group sees them (SharePartition of Kafka).
- `records`: records of ``__share_group_state``: a snapshot has the whole state of a share partition, an update has changes of it.
- `requests`: requests, responses and configuration of the share coordinator.
- `sessions`: share sessions: the partitions that a member fetches, so that requests need not name them each time (ShareSessionCache
  of Kafka).
- `shard`: one partition of ``__share_group_state``: the decisions about its share partitions (ShareCoordinatorShard of Kafka).
- `states`: the states of a record in a share partition, and the transitions between them (RecordState of Kafka).
"""
