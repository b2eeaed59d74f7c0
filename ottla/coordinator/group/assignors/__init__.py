"""Assignors of the newer group protocols (KIP-848): pure functions from members and topics to a target assignment.

In these protocols the broker computes assignments; in classic groups a member does.

- `different_subscriptions`: the part of the assignor "uniform" for groups whose members do not all subscribe to the same topics.
- `members`: the input and output of assignors, and shared helpers.
- `named`: assignors by the names that clients and ``group.consumer.assignors`` use.
- `range`: the assignor "range": each member gets adjacent partitions of each topic.
- `simple`: the assignor of share groups (KIP-932).
- `uniform`: the assignor "uniform": members get equally many partitions, and as few partitions as possible move.
"""
