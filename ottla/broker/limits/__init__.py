"""Limits on all connections of a broker together.

- `fetch_sessions`: incremental fetch sessions (KIP-227): requests and responses contain only changed partitions.
- `inflating`: limits the memory that all requests together use for inflating batches.
- `client_quotas`: enforces the quotas of users, client ids and addresses; `quota_managers` has the state of each kind of quota.
- `memory_budgets`: limits the memory of all connections together: unfinished and waiting requests, and responses that clients have
  not read yet.
"""
