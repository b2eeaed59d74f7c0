"""Streams groups (KIP-1071): the broker assigns the tasks of a Kafka Streams application. Names follow Kafka's ``group.streams``.

- `answers`: describes streams groups in responses: endpoints of members that serve interactive queries, and StreamsGroupDescribe.
- `assignor`: assigns the tasks of a streams group to its members.
- `configuration`: matches a topology with the cluster's topics: computes the number of tasks, and the internal topics to create.
- `effects`: changes of streams groups in memory that follow once a decision's records are in the log (`StreamsGroups.apply`).
- `group`: a streams group, as its records describe it.
- `groups`: all streams groups of a shard: their decisions, their deadlines, and the replay of their records.
- `heartbeat`: decides a heartbeat.
- `java_order`: the iteration orders of Java's HashMap and PriorityQueue.
- `joining`: identifies the member that sent a heartbeat; removes members that leave or are fenced.
- `member`: a member of a streams group: a process of the application, with one or more threads.
- `reconciliation`: moves a member from its current tasks to its target tasks.
- `records`: records of streams groups in ``__consumer_offsets``, in Kafka's own schemas.
- `requests`: requests, responses and configuration of streams groups. Requests and responses are Kafka's own messages.
- `status`: statuses in responses: of a heartbeat and of a topology's description.
- `target`: decides when the members of a streams group get new targets, and computes them.
- `tasks`: sets of tasks: one task is a partition of a subtopology.
- `topology`: the topology of a streams group, from its members' heartbeats or its record.
"""
