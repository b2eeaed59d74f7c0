"""Reads the files of a broker of ottla or Apache Kafka in pieces, even while the broker runs. Nothing is written.

- `files`: recognises the files of a data directory by their names, and reads all files except logs.
- `logs`: reads a segment's log file: batches, records, and damaged parts.
- `timelines`: collects the history of a transactional id from the files of a data directory.
"""
