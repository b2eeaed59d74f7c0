"""Reads the files of a broker, ottla's or Apache Kafka's, piece by piece, also while the broker runs. Nothing is written."""
