"""Writes and reads records.

- `producing`: writes records with an idempotent producer.
- `reading`: reads topics up to their current end, or without end.
- `record`: consumed and new records, and their batches.
- `transaction`: a transaction of this client, with its records and committed offsets.
"""
