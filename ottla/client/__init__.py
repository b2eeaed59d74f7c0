"""A small blocking client for any Kafka cluster, for the command line and the test handle.

Calls wait for the response, and retry after retriable errors until a deadline. `KafkaClient` is the interface; the modules behind
it are functions on `brokers.Brokers`.

- `brokers`: the brokers of a cluster: finds the broker for a request, and retries until the response is final.
- `connection`: a connection to one broker: one request at a time, in the newest version that both sides support.
- `description`: describes the cluster as a whole.
- `diagnosis`: finds out why readers wait: which transaction holds the last stable offset of a partition, and what a group waits
  for.
- `durations`: durations for people.
- `errors`: the client's exceptions.
- `event_order`: the order of what has happened to a transactional id, where times do not tell it.
- `groups`: lists and describes groups of all types with their lag, and sets or deletes their offsets.
- `kafka_client`: the interface of the client: `KafkaClient` has one cluster and the operations on it.
- `leaderless`: partitions without a leader: why each has none, and what gives it one again.
- `leadership`: which broker leads a partition, and how another replica comes to lead it.
- `offsets`: finds the first and last offsets of partitions, and the offsets of timestamps (ListOffsets).
- `positions`: computes how far a group has read, for the command line, the console, ``ottla why`` and the lag of a handle.
- `producing`: writes records with an idempotent producer, so that a request which is repeated after a lost response writes nothing
  twice.
- `reading`: reads topics up to their current end, or without end.
- `ready_line`: reads the file that ``ottla serve --ready-file`` writes, for programs that look for that broker.
- `reasons`: says why readers of committed records wait, what a group waits for, and what to do.
- `records`: records for people, and the batches that contain them.
- `strays`: the stray directories of a cluster's brokers, which were set aside because they belong to no topic.
- `timeline`: the history of a transactional id, in order, from the coordinator's log and the partitions' markers.
- `topics`: creates, lists, describes and deletes topics, and reads and changes configs of resources.
- `transactions`: lists and describes transactions, aborts them from outside, and finds hanging ones (KIP-664).
- `real_time`: the machine's clocks, also where a test has frozen the time that programs see.
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
