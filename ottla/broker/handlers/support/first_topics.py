"""Creates topics when a broker starts, before it accepts requests. Existing topics stay unchanged."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.first_topic import FirstTopic
from ottla.broker.handlers import create_topics
from ottla.protocol import steps
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

log = structlog.get_logger("broker")


def create_first_topics(ports: create_topics.Ports, topics: Iterable[FirstTopic]) -> None:
    """Create each topic that does not exist. Raises `ConfigError` for a topic that cannot be created."""
    for topic in topics:
        asked = CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
        )
        try:
            steps.run(create_topics.create(ports, asked))
        except KafkaError as error:
            if error.code == Code.TOPIC_ALREADY_EXISTS:
                log.info("first_topic_skipped", topic=topic.name)
                continue
            raise ConfigError(f"{topic.said}: {error.message or error.code.name}") from None
