"""Chaos tests of share groups with failures of coordinators, leaders and members: ``python -m tests.chaos --share``.

- `Member.java`: a member with Kafka's own share consumer; `members` starts, kills and pauses members.
- `history`: the events recorded by the members, by the producer and by the observer of start offsets.
- `checker`: the properties that a history must have.
- `cards`: the faults.
- `campaign`: starts a cluster, injects faults and checks the history, repeatedly.
"""
