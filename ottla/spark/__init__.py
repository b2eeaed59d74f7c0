"""Exactly once from Spark into any Kafka: the sink, the sources and what they need of a session."""
