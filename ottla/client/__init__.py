"""A small blocking client for any Kafka cluster, for the command line and `ottla.testing`.

Calls wait for the response, and retry after retriable errors until a deadline. `KafkaClient` is the interface; the packages
below contain functions that take a `cluster.BrokerConnections`.

- `admin`: operations on topics, groups, transactions and the cluster.
- `cluster`: finds the broker for a request, keeps a connection to each broker, and retries requests.
- `durations`: formats durations for people.
- `errors`: the client's exceptions.
- `explain`: explains why consumers and groups do not advance.
- `finding`: a result of ``ottla doctor``.
- `kafka_client`: `KafkaClient`, the interface: all operations on one cluster.
- `ready_line`: reads the file with a broker's addresses that ``ottla serve --ready-file`` writes.
- `real_time`: the machine's clocks, which work even if a test has frozen Python's time functions.
- `records`: writes and reads records.
- `wire`: connections to brokers.
- `wording`: formats numbers and names for sentences.
"""

from ottla.client.errors import ClientError, KafkaAnswered, NotKafka, TimedOut, TooMuch, Unreachable, UnsupportedRequest
from ottla.client.kafka_client import KafkaClient
from ottla.client.records.record import ConsumedRecord, NewRecord

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
