"""Reads the files of a broker, ottla's or Apache Kafka's, piece by piece, also while the broker runs. Nothing is written.

- `files`: recognises the files of a data directory by their names, and reads those that are not logs.
- `internal_topics`: decodes the records of topics in which a cluster keeps its own state, by Kafka's schemas.
- `logs`: reads a segment's log file: its batches, their records, and the position where the file is damaged.
- `timelines`: the history of a transactional id from the files of a data directory, whose broker need not run or be ottla.
"""
