"""The transaction coordinator: states, metadata, and one shard for each partition of ``__transaction_state``.

- `effects`: the effects of decisions about transactional ids. Each is carried out once the decision's record is in the log.
- `lost_additions`: finds partitions whose addition to an open transaction was lost in a crash.
- `metadata`: the state of one transactional id, and its record in ``__transaction_state``.
- `requests`: the settings of a transaction shard, and the arguments and results of its commands.
- `shard`: one partition of ``__transaction_state``, with every decision about its transactional ids.
- `states`: the transitions between the states of a transactional id.
- `transitions`: computes the next metadata of a transactional id: epochs, producer ids and states.
"""
