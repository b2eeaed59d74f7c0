"""Incremental fetch sessions (KIP-227): a consumer names only what changed, and is told only what changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from ottla.protocol.errors import Code, KafkaError

PartitionKey = tuple[bytes, str, int]
"""Topic id (zeros before version 13), topic name, partition."""

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0


class Asked(msgspec.Struct, gc=False):
    """What a fetch asks of one partition, and what the session was last told of it."""

    key: PartitionKey
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_epoch: int = -1
    """The leader epoch of the last record that the client has; below 0 it says nothing of it."""
    told_high_watermark: int = -1
    told_log_start: int = -1


class Session:
    """The partitions of one consumer, those served longest ago first."""

    __slots__ = ("epoch", "last_used_ms", "names_by_id", "partitions", "session_id")

    def __init__(self, session_id: int, partitions: dict[PartitionKey, Asked], now_ms: int, *, names_by_id: bool) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.names_by_id = names_by_id
        self.partitions = partitions
        self.last_used_ms = now_ms

    def update(self, asked: Iterable[Asked], forgotten: Iterable[PartitionKey]) -> None:
        for new in asked:
            known = self.partitions.get(new.key)
            if known is None:
                self.partitions[new.key] = new
            else:
                known.fetch_offset, known.max_bytes = new.fetch_offset, new.max_bytes
                known.leader_epoch, known.last_epoch = new.leader_epoch, new.last_epoch
        for key in forgotten:
            self.partitions.pop(key, None)

    def served(self, key: PartitionKey) -> None:
        """Move a partition behind the others, so that a busy one does not starve them."""
        asked = self.partitions.pop(key, None)
        if asked is not None:
            self.partitions[key] = asked


class FetchSessions:
    """The sessions of a broker: at most ``slots``, which name at most ``max_partitions`` in all.

    Where there is no room a fetch is answered without a session, as Kafka does, and names all its partitions each time.
    """

    EVICTABLE_AFTER_MS = 120_000

    def __init__(self, slots: int, max_partitions: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._max_partitions = max_partitions
        self._new_id = new_id
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> Session | None:
        return self._sessions.get(session_id)

    def open(self, partitions: dict[PartitionKey, Asked], now_ms: int, *, names_by_id: bool = False) -> Session | None:
        """A new session, which the partitions belong to from here on; None when there is no room.

        ``names_by_id``: its topics are named by their ids, as from version 13 on.
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
        session = self._sessions[session_id] = Session(session_id, partitions, now_ms, names_by_id=names_by_id)
        self.partition_count += len(session.partitions)
        return session

    def resume(self, session_id: int, epoch: int, now_ms: int, *, names_by_id: bool = False) -> Session:
        """Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, or FETCH_SESSION_TOPIC_ID_ERROR.

        The last where names and ids of topics come to be mixed (KIP-516): a client then begins anew.
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

    def update(self, session: Session, asked: Iterable[Asked], forgotten: Iterable[PartitionKey]) -> None:
        """Take in what a fetch changes of its session.

        Raises FETCH_SESSION_ID_NOT_FOUND where it names more than there is room for: the session ends, and the client
        begins anew with all its partitions.
        """
        before = len(session.partitions)
        session.update(asked, forgotten)
        self.partition_count += len(session.partitions) - before
        if self.partition_count > self._max_partitions and len(session.partitions) > before:
            self.close(session.session_id)
            raise KafkaError(Code.FETCH_SESSION_ID_NOT_FOUND)

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)
