"""Share groups over failures of coordinators, leaders and members: ``python -m tests.chaos --share``.

- `Member.java`: a member, with Kafka's own share consumer; `members` starts, kills and pauses members.
- `history`: what the members, the producer and the observer of start offsets have noted.
- `checker`: what must hold of it.
- `cards`: the faults.
- `campaign`: the rounds.
"""
