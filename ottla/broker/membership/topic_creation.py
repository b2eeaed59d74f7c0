"""Has the controller create topics that the broker needs or a client's Metadata request names (AutoTopicCreationManager)."""

from __future__ import annotations

from typing import Any, NoReturn

import structlog

from ottla.broker.loop.env import Clock
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.metadata.internal_topics import NewTopic
from ottla.broker.peers.peer import Peer
from ottla.broker.peers.requests import PeerFailure
from ottla.protocol.errors import Code, KafkaError, known_code
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

TIMEOUT_MS = 30_000
MAX_ASKED = 1_000
"""Upper bound on the number of topics requested at the same time, and of remembered refusals."""
REFUSED_MS = 1_000
"""Time in ms after the controller refused a topic before the topic is requested again."""

log = structlog.get_logger("membership")


class ControllersTopics:
    """Has the controller create topics (`TopicCreation`). Each topic has one request in flight, however many clients need it."""

    def __init__(self, clock: Clock, controller: Peer) -> None:
        self._clock = clock
        self._controller = controller
        self._errors = RepeatedErrors(clock, log)
        self._asked: set[str] = set()
        # For each topic, the controller's error, and the time until which the topic is not requested again.
        self._refused: dict[str, tuple[KafkaError, float]] = {}

    def create_topic(self, topic: NewTopic) -> NoReturn:
        """Request the creation of a topic. Raises the controller's last error for the topic, or UNKNOWN_TOPIC_OR_PARTITION, which
        clients retry."""
        error, until_ms = self._refused.get(topic.name, (None, 0.0))
        if error is not None and self._clock.monotonic_ms() < until_ms:
            raise KafkaError(error.code, error.message)
        self._refused.pop(topic.name, None)
        if topic.name not in self._asked and len(self._asked) < MAX_ASKED:
            self._ask(topic)
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist yet; the controller was requested to create it")

    def _ask(self, topic: NewTopic) -> None:
        self._asked.add(topic.name)
        asked = CreatableTopic(
            name=topic.name,
            num_partitions=topic.partition_count,
            replication_factor=topic.replication_factor,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
        )

        def answered(answer: Any) -> None:
            self._asked.discard(topic.name)
            if isinstance(answer, PeerFailure):
                self._errors.failed("topic_not_created", answer.reason, key=topic.name, topic=topic.name)
                return
            if all(result.error_code == Code.NONE for result in answer.topics):
                self._errors.succeeded(topic.name)
            for result in answer.topics:
                if result.error_code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                    self._note(topic.name, KafkaError(known_code(result.error_code), result.error_message))

        self._controller.send(CreateTopicsRequest(topics=[asked], timeout_ms=TIMEOUT_MS), answered, timeout_ms=TIMEOUT_MS)

    def _note(self, name: str, error: KafkaError) -> None:
        self._errors.failed("topic_not_created", str(error), key=name, topic=name)
        if len(self._refused) >= MAX_ASKED:
            self._refused.clear()
        self._refused[name] = (error, self._clock.monotonic_ms() + REFUSED_MS)
