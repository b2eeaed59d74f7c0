"""A small blocking client for any Kafka, for the command line and the test handle.

Requests wait for their answers, and what fails in passing is asked again until a deadline. `Cluster` is the face; the modules
behind it are functions on `brokers.Brokers`.
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
