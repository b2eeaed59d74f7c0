"""Incremental fetch sessions (KIP-227): requests and responses contain only changed partitions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from ottla.protocol.errors import Code, KafkaError

PartitionKey = tuple[bytes, str, int]
"""Topic id (zeros before Fetch 13), topic name, partition."""

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0


class RequestedPartition(msgspec.Struct, gc=False):
    """A partition of a fetch: the fields of the request, and the offsets in the last response."""

    key: PartitionKey
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_epoch: int = -1
    """The leader epoch of the last record that the client has; below 0 if the client does not send it."""
    start_offset: int = -1
    """The log start offset of a follower; -1 for consumers."""
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1


class ConsumerFetchSession:
    """The partitions of one consumer's fetch session. The partition whose data was sent longest ago comes first."""

    __slots__ = ("epoch", "last_used_ms", "names_by_id", "partitions", "session_id")

    def __init__(
        self, session_id: int, partitions: dict[PartitionKey, RequestedPartition], now_ms: int, *, names_by_id: bool
    ) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.names_by_id = names_by_id
        self.partitions = partitions
        self.last_used_ms = now_ms

    def update(self, requested: Iterable[RequestedPartition], forgotten: Iterable[PartitionKey]) -> None:
        for new in requested:
            known = self.partitions.get(new.key)
            if known is None:
                self.partitions[new.key] = new
            else:
                known.fetch_offset, known.max_bytes = new.fetch_offset, new.max_bytes
                known.leader_epoch, known.last_epoch = new.leader_epoch, new.last_epoch
                known.start_offset = new.start_offset
        for key in forgotten:
            self.partitions.pop(key, None)

    def served(self, key: PartitionKey) -> None:
        """Move a partition to the end of the session, so that a busy partition does not starve other partitions."""
        requested = self.partitions.pop(key, None)
        if requested is not None:
            self.partitions[key] = requested


class FetchSessions:
    """The fetch sessions of a broker: at most ``slots`` sessions with at most ``max_partitions`` partitions together.

    If there is no room, a fetch gets no session, as in Kafka, and the client sends all partitions each time.
    """

    EVICTABLE_AFTER_MS = 120_000

    def __init__(self, slots: int, max_partitions: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._max_partitions = max_partitions
        self._new_id = new_id
        self._sessions: OrderedDict[int, ConsumerFetchSession] = OrderedDict()
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> ConsumerFetchSession | None:
        return self._sessions.get(session_id)

    def open(
        self, partitions: dict[PartitionKey, RequestedPartition], now_ms: int, *, names_by_id: bool = False
    ) -> ConsumerFetchSession | None:
        """Open a session that keeps the dictionary ``partitions``. Returns None if there is no room.

        ``names_by_id``: the client sends topic ids instead of names, as from Fetch 13 on.
        """
        if len(partitions) > self._max_partitions:
            return None
        while len(self._sessions) >= self._slots or self.partition_count + len(partitions) > self._max_partitions:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms < self.EVICTABLE_AFTER_MS:
                return None
            self.close(oldest.session_id)
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id()
        session = self._sessions[session_id] = ConsumerFetchSession(session_id, partitions, now_ms, names_by_id=names_by_id)
        self.partition_count += len(session.partitions)
        return session

    def resume(self, session_id: int, epoch: int, now_ms: int, *, names_by_id: bool = False) -> ConsumerFetchSession:
        """Return the session of an incremental fetch, and increment its epoch.

        Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, or FETCH_SESSION_TOPIC_ID_ERROR if the session mixed topic
        names and ids (KIP-516). The client then opens a new session.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(Code.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(Code.INVALID_FETCH_SESSION_EPOCH)
        if session.names_by_id is not names_by_id:
            raise KafkaError(Code.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == 0x7FFFFFFF else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def update(
        self, session: ConsumerFetchSession, requested: Iterable[RequestedPartition], forgotten: Iterable[PartitionKey]
    ) -> None:
        """Apply an incremental fetch to its session.

        Raises FETCH_SESSION_ID_NOT_FOUND if the new partitions exceed ``max_partitions``. The session is then closed, and the
        client opens a new session with all its partitions.
        """
        before = len(session.partitions)
        session.update(requested, forgotten)
        self.partition_count += len(session.partitions) - before
        if self.partition_count > self._max_partitions and len(session.partitions) > before:
            self.close(session.session_id)
            raise KafkaError(Code.FETCH_SESSION_ID_NOT_FOUND)

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)
