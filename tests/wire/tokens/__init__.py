"""Delegation tokens (KIP-48) over sockets: a transcript that Apache Kafka writes, run against both brokers.

- `brokers`: a broker of ottla, and one of Apache Kafka, with users and a secret key.
- `commands`: the commands of the transcript.
"""
