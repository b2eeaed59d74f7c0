"""Reads the files of a broker, ottla's or Apache Kafka's, in pieces, even while the broker runs. Nothing is written.

- `files`: recognises the files of a data directory by their names, and reads those that are not logs.
- `internal_topics`: decodes the records of internal topics by Kafka's schemas.
- `logs`: reads a segment's log file: its batches, their records, and damaged parts.
- `timelines`: the history of a transactional id from the files of a data directory of ottla or Apache Kafka.
"""
