"""Resolves the topics of requests that contain only topic ids or a fetch session id."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.limits.fetch_sessions import FetchSessions, PartitionKey
from ottla.coordinator.metadata.cluster import ClusterState


class KnownTopics:
    """Finds a topic's name by its id, and the partitions of a fetch session (`hooks.interception.RequestTopics`)."""

    __slots__ = ("_fetch_sessions", "_state")

    def __init__(self, state: ClusterState, fetch_sessions: FetchSessions | None = None) -> None:
        """``fetch_sessions`` is None for a server without fetch sessions."""
        self._state = state
        self._fetch_sessions = fetch_sessions

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._state.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def of_fetch_session(self, session_id: int) -> Iterable[PartitionKey]:
        session = None if self._fetch_sessions is None else self._fetch_sessions.get(session_id)
        return () if session is None else list(session.partitions)
