"""Clients of a simulated world. They use the real protocol, and continue after errors like Kafka's own clients.

- `actors`: the actors of a simulated world: clients that write, consume and produce, read, or administer.
- `consuming`: reads with both isolation levels, filters aborted records like Kafka's CompletedFetch, and fetches committed offsets.
- `noting`: records the attempts of all clients and their responses, in the order of events in the whole world.
- `producing`: a producer: its identity and sequences, retries in order, and transactions of both versions.
- `wire`: a client's connections: versions, timeouts, reconnects, leaders and coordinators.
"""
