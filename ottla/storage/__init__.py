"""Apache Kafka's on-disk format: the log of each partition, and the files that are derived from logs.

The package reads and writes files only, and does so through one `Filesystem`.
"""
