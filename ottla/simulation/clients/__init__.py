"""Simulated clients. They use the real protocol, and continue after errors like Kafka's own clients.

- `actors`: clients that write, consume and produce, read, or administer.
- `consuming`: a consumer of both isolation levels, which also fetches committed offsets.
- `noting`: records the requests and responses of all clients.
- `producing`: a producer: sequences, retries in order, and transactions of both versions.
- `wire`: a client's connections: versions, timeouts, reconnects, leaders and coordinators.
"""
