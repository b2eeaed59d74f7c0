"""Explanations for people: why clients cannot connect, why consumers and groups do not advance, what a transactional id did.

- `connection_checks`: finds out why a client cannot connect, up to the addresses that all brokers advertise.
- `denials`: explains which requests ACLs have denied.
- `diagnosis`: finds the transaction that holds back a partition's last stable offset, and the reason why a group does not advance.
- `event_order`: orders events of a transactional id that have the same time.
- `reachability`: finds out whether TCP connections to an address succeed, and explains why not.
- `reasons`: explains why read_committed consumers or a group do not advance, and what to do.
- `timeline`: collects the history of a transactional id from the coordinator's log and the partitions' markers.
"""
