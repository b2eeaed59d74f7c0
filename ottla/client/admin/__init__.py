"""Reads and changes a cluster as an administrator does. The functions send requests through a `cluster.BrokerConnections`.

- `activity`: takes a sample of what a cluster does: log end offsets, lag of groups, open transactions.
- `acls`: lists, creates and deletes ACLs.
- `config_effects`: finds configs that brokers of ottla accept without effect.
- `delegation_tokens`: creates delegation tokens.
- `description`: describes a cluster: brokers, controller, features, leaderless partitions, stray directories.
- `documented_configs`: describes configs of a resource with their defaults and documentation.
- `groups`: lists and describes groups of all types with their lag, sets their offsets, and deletes groups.
- `leaderless`: lists partitions without a leader, with the reason and the remedy for each.
- `leadership`: finds, moves and elects the leader of a partition.
- `log_sizes`: returns the sizes of partitions on disk (DescribeLogDirs).
- `offset_deletion`: deletes committed offsets of a group.
- `offsets`: finds the first and last offsets of partitions, and the offsets of timestamps (ListOffsets).
- `places`: positions in a topic as users write them: the beginning, the end, an offset, or a time.
- `positions`: computes a group's positions and lag, for commands, the console and `ottla.testing`.
- `quotas`: sets, lists and removes the quotas of users, client ids and addresses.
- `record_deletion`: deletes the oldest records of partitions (DeleteRecords, KIP-107).
- `resets`: plans the reset of a group's offsets.
- `strays`: lists stray directories (partition directories that belong to no topic) and problems of log directories.
- `topic_groups`: finds the groups that have committed offsets for a topic, within a time limit.
- `topics`: creates, lists, describes and deletes topics, adds partitions, and reads and changes configs of resources.
- `transactions`: lists and describes transactions, aborts them as an operator, and finds hanging transactions (KIP-664).
- `users`: lists, adds and removes the users of SCRAM (KIP-554).
"""
