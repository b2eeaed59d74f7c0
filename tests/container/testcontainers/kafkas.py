"""Starts Testcontainers' Kafka container on the image that is named, prints its bootstrap servers, and ends it at the next line."""

import sys

from testcontainers.community.kafka import KafkaContainer

for name, container in (
    ("kraft", KafkaContainer(sys.argv[1]).with_kraft()),
    ("zookeeper", KafkaContainer(sys.argv[1])),
):
    with container as kafka:
        print(name, kafka.get_bootstrap_server(), flush=True)
        sys.stdin.readline()
