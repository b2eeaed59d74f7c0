"""Connections of this process to other brokers and to the controller.

- `backoff`: how long a connection waits before it is tried again: longer after each failure, and by chance (ExponentialBackoff of
  Kafka).
- `channel`: the transport of one connection to a peer: bytes to frames, and frames to bytes.
- `directory`: the connections to the other brokers of the cluster, by their ids.
- `peer`: one other broker, or the controller: sends requests to it, and connects again where the connection is lost.
- `requests`: the requests of one connection to a peer: those that wait to be sent, and those that wait for their answers.
- `states`: the states of a connection to a peer, and which may follow which.
- `versions`: which version of an API is spoken with a peer (NodeApiVersions of Kafka).
"""
