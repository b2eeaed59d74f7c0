"""Consumer groups (KIP-848): the broker computes a target assignment, and heartbeats bring each member to its target.

- `classic_members`: members of a consumer group that use the classic protocol.
- `downgrading`: the interface that converts consumer groups to classic groups when the last member of the consumer protocol leaves.
- `effects`: changes of consumer groups in memory that follow once a decision's records are in the log (`ConsumerGroups.apply`).
- `group`: a consumer group, as its records describe it.
- `groups`: all consumer groups of a shard: their decisions, their deadlines, and the replay of their records.
- `heartbeat`: decides a heartbeat.
- `member`: a member of a consumer group.
- `reconciliation`: moves a member from its current assignment to its target.
- `records`: records of consumer groups in ``__consumer_offsets``, in Kafka's own schemas.
- `regexes`: subscriptions by regular expression, and the logged topics that match each.
- `regrouping`: the effect of a member's join or heartbeat on its group and its assignment.
- `requests`: requests, responses and configuration of consumer groups.
"""
