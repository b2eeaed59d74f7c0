"""Writes and reads records.

- `copying`: copies a topic to another cluster, each committed record exactly once.
- `internal_topics`: decodes the records of internal topics by Kafka's schemas.
- `last_records`: reads the newest records of a topic, from its end backwards.
- `producing`: writes records with an idempotent producer.
- `reading`: reads topics up to their current end, or without end.
- `record`: consumed and new records, and their batches.
- `transactional_producer`: writes records and offsets of groups in transactions.
"""
