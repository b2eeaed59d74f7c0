"""A small blocking client for any Kafka cluster, for the command line and the test handle.

Calls wait for the response, and retry after retriable errors until a deadline. `Cluster` is the interface; the modules behind it
are functions on `brokers.Brokers`.
"""

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, KafkaAnswered, NotKafka, NotServed, TimedOut, TooMuch, Unreachable
from ottla.client.records import NewRecord, Record

__all__ = [
    "ClientError",
    "Cluster",
    "KafkaAnswered",
    "NewRecord",
    "NotKafka",
    "NotServed",
    "Record",
    "TimedOut",
    "TooMuch",
    "Unreachable",
]
