"""Writes and reads records.

- `internal_topics`: decodes the records of internal topics by Kafka's schemas.
- `producing`: writes records with an idempotent producer.
- `reading`: reads topics up to their current end, or without end.
- `record`: consumed and new records, and their batches.
"""
