"""Connections of this process to other brokers and to the controller, and what coordinators and leaders send over them.

- `authentication`: one authentication of a connection to a peer by SASL, without a socket.
- `backoff`: the delay before a reconnect, which grows with each failure and has random jitter (Kafka's ExponentialBackoff).
- `channel`: the transport of one connection to a peer: splits received bytes into frames, and sends frames.
- `directory`: the connections to the other brokers of the cluster, by their ids.
- `endpoint_tokens`: the tokens of this node from an OAuth endpoint.
- `leaders`: finds the leader of a partition in the cluster's metadata, and the connection to it.
- `marker_transport`: sends markers to the leaders of their partitions (TransactionMarkerChannelManager).
- `other_coordinators`: connects the coordinators of a broker with the coordinators and leaders on other brokers.
- `peer`: the connection to another broker or the controller: sends requests, and reconnects after the connection is lost.
- `principals`: encodes the principal of a client in an envelope.
- `remote_verification`: verifies with the transaction's coordinator, on any broker, that a partition belongs to a transaction
  (KIP-890).
- `requests`: the unsent requests of one connection to a peer, and the requests in flight.
- `security`: TLS and SASL of connections to one listener of the other nodes.
- `states`: the states of a connection to a peer, and the allowed transitions.
- `versions`: chooses the version of each API for requests to a peer (Kafka's NodeApiVersions).
"""
