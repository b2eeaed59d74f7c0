"""Explanations for people: why consumers and groups do not advance, and the history of a transactional id.

- `denials`: explains which requests ACLs have denied.
- `diagnosis`: finds the transaction that holds back a partition's last stable offset, and the reason why a group does not advance.
- `event_order`: orders events of a transactional id that have the same time.
- `reasons`: explains why read_committed consumers or a group do not advance, and what to do.
- `timeline`: collects the history of a transactional id from the coordinator's log and the partitions' markers.
"""
