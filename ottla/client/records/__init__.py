"""Writes and reads records.

- `copying`: copies a topic to another cluster, each committed record exactly once.
- `documents`: a record as a JSON document and as a row of CSV.
- `expressions`: regular expressions that match in linear time.
- `internal_topics`: decodes the records of internal topics by Kafka's schemas.
- `json_path`: evaluates JSONPath expressions, with a limit on their work.
- `last_records`: reads the newest records of a topic, from its end backwards.
- `producing`: writes records with an idempotent producer.
- `reading`: reads topics up to their current end, or without end.
- `record`: consumed and new records, and their batches.
- `record_filter`: the conditions by which records are selected.
- `transactional_producer`: writes records and offsets of groups in transactions.
"""
