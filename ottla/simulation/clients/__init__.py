"""Clients of a simulated world. They speak the real protocol, and go on after errors like Kafka's own clients."""
