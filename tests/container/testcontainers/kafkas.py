"""Starts Testcontainers' Kafka containers on the given image, prints their addresses, and stops each when a line is read."""

import sys

from testcontainers.community.kafka import KafkaContainer

for name, container in (
    ("kraft", KafkaContainer(sys.argv[1]).with_kraft()),
    ("zookeeper", KafkaContainer(sys.argv[1])),
):
    with container as kafka:
        print(name, kafka.get_bootstrap_server(), flush=True)
        sys.stdin.readline()
