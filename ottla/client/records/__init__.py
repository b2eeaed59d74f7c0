"""Writes and reads records.

- `copying`: copies a topic to another cluster, each committed record exactly once.
- `last_records`: reads the newest records of a topic, from its end backwards.
- `producing`: writes records with an idempotent producer.
- `reading`: reads topics up to their current end, or without end.
- `record`: consumed and new records, and their batches.
- `transaction`: one transaction of a transactional id.
- `transactions`: writes batches in transactions, with the offsets of a group as progress.
"""
