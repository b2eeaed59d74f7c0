"""A small blocking client for any Kafka cluster, for the command line and the test handle.

Calls wait for the response, and retry after retriable errors until a deadline. `KafkaClient` is the interface; the modules behind
it are functions on `brokers.Brokers`.
"""

from ottla.client.errors import ClientError, KafkaAnswered, NotKafka, TimedOut, TooMuch, Unreachable, UnsupportedRequest
from ottla.client.kafka_client import KafkaClient
from ottla.client.records import ConsumedRecord, NewRecord

__all__ = [
    "ClientError",
    "ConsumedRecord",
    "KafkaAnswered",
    "KafkaClient",
    "NewRecord",
    "NotKafka",
    "TimedOut",
    "TooMuch",
    "Unreachable",
    "UnsupportedRequest",
]
