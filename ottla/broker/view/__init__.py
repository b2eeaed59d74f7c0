"""A read model of a running broker, for the control API and the console: plain values, made on the broker's event loop.

The functions change nothing: they load no coordinator and create no topic. Most are coroutines (`protocol.steps`) that let other
work run, so a list is not a snapshot of one moment. The values have no types of the broker, so that they can also describe a
cluster that a client reads. State is shown as soon as it is appended; a response to a client may still wait for the replicas or the
disk.

- `brokers`: the brokers of the cluster, with their addresses for clients.
- `coordinators`: finds the shard of a group or transactional id, and lists the brokers that coordinate all other groups and ids.
- `groups`: the groups that this broker coordinates, their members, positions and lag, and the transactions that hold them back.
- `health`: the broker as a whole: addresses, disk problems, stray directories.
- `members`: the members of a group of any protocol, with the partitions that they read.
- `partitions`: offsets and sizes of logs, markers and aborted transactions, and what holds back read_committed consumers.
- `ports`: all parts of the broker that the other modules read.
- `topics`: the topics of the cluster, and the size of their partitions on this broker.
- `transactions`: the transactional ids that this broker coordinates.
"""
