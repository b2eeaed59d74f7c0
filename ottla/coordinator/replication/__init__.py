"""The decisions of a leader and its followers about a partition's replicas. Pure: offsets and times come as arguments.

- `follower`: handles the leader's fetch responses in a follower.
- `in_sync`: a leader's view of the in-sync set, and the changes that it requests from the controller (KIP-497).
- `leader`: a leader's view of its followers, and the decisions based on it.
- `read_replica`: chooses the replica that a consumer should read from (KIP-392).
"""
