"""Where a controller's decisions find the configs of topics that have none of their own."""

from __future__ import annotations

from collections.abc import Callable

MIN_INSYNC_REPLICAS = "min.insync.replicas"
ServerConfig = Callable[[str], str]
"""Gives the value of a topic config by its name: that of the server's dynamic or static configs, or else Kafka's default
(KafkaConfigSchema.resolveEffectiveTopicConfig)."""


def no_server(name: str) -> str:
    """The `ServerConfig` of metadata that no controller decides on."""
    raise AssertionError(f"{name} was asked of metadata without a server")
