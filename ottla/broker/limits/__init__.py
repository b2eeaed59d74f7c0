"""Limits on all connections of a broker together.

- `client_quotas`: enforces the quotas of users, client ids and addresses.
- `fetch_sessions`: incremental fetch sessions (KIP-227): requests and responses contain only changed partitions.
- `inflating`: limits the memory that all requests together use for decompressing batches.
- `memory_budgets`: limits the memory of all connections together: unfinished and waiting requests, and responses that clients have
  not read yet.
- `quota_managers`: the state of each kind of quota. Imported only if there are quotas.
"""
