"""A small blocking client for any Kafka cluster, for the command line and the test handle.

Calls wait for the response, and retry after retriable errors until a deadline. `KafkaClient` is the interface; the other modules
are functions on `brokers.BrokerConnections`.

- `brokers`: the brokers of a cluster: finds the broker for a request, and retries until the response is final.
- `connection`: a connection to one broker: one request at a time, in the newest version that both sides support.
- `description`: describes the cluster as a whole.
- `diagnosis`: finds the transaction that holds back a partition's last stable offset, and the reason why a group does not advance.
- `durations`: durations for people.
- `errors`: the client's exceptions.
- `event_order`: orders the events of a transactional id whose times are equal.
- `groups`: lists and describes groups of all types with their lag, and sets or deletes their offsets.
- `kafka_client`: the interface of the client: `KafkaClient` has one cluster and the operations on it.
- `leaderless`: partitions without a leader, with the reason and the remedy for each.
- `leadership`: the leader of a partition, and elections of another one.
- `offsets`: finds the first and last offsets of partitions, and the offsets of timestamps (ListOffsets).
- `positions`: computes a group's positions and lag, for the command line, the console, ``ottla why`` and the test handle.
- `producing`: writes records with an idempotent producer, so that a request which is repeated after a lost response writes nothing
  twice.
- `reading`: reads topics up to their current end, or without end.
- `ready_line`: reads the file that ``ottla serve --ready-file`` writes, for programs that look for that broker.
- `reasons`: explains why read_committed consumers or a group do not advance, and what to do.
- `records`: records for people, and the batches that contain them.
- `strays`: the stray directories of a cluster's brokers, which were set aside because they belong to no topic.
- `timeline`: the history of a transactional id, in order, from the coordinator's log and the partitions' markers.
- `topics`: creates, lists, describes and deletes topics, and reads and changes configs of resources.
- `transactions`: lists and describes transactions, aborts them as an operator, and finds hanging ones (KIP-664).
- `real_time`: the machine's clocks, which work even if a test has frozen Python's time functions.
- `wording`: numbers and names in sentences.
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
