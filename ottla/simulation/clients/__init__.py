"""Clients of a simulated world. They speak the real protocol, and go on after errors like Kafka's own clients.

- `actors`: the actors of a simulated world: clients that write with and without transactions, consume and produce, read, or
  administer.
- `consuming`: reads with both isolation levels, filters aborted records as Kafka's CompletedFetch, and fetches committed offsets of
  groups.
- `noting`: records what all clients attempt and how they are answered, in the order in which it happens in the whole world.
- `producing`: a producer: its identity and sequences, retries in order, and transactions of both versions (Sender,
  TransactionManager).
- `wire`: a client's connections: versions, time-outs, reconnects, leaders and coordinators (NetworkClient and Metadata of Kafka).
"""
