"""Returns the server's value of topic configs, for a controller's decisions about topics without a config of their own."""

from __future__ import annotations

from collections.abc import Callable

MIN_INSYNC_REPLICAS = "min.insync.replicas"
ServerConfig = Callable[[str], str]
"""A function that returns the value of a topic config by name, from the server's dynamic or static configs or Kafka's default
(KafkaConfigSchema.resolveEffectiveTopicConfig)."""


def no_server(name: str) -> str:
    """The `ServerConfig` of metadata without a controller. It must not be called."""
    raise AssertionError(f"config {name} was requested from metadata without a server")
