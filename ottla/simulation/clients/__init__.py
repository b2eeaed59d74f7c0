"""Clients of a simulated world: they speak the real protocol, and go on after errors as Kafka's own clients do."""
