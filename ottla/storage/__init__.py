"""Apache Kafka's files: one partition's log and all that is derived from it. Files only, through one Filesystem."""
