"""Share sessions: the partitions that a member fetches, so that requests need not list them each time (ShareSessionCache of Kafka).

A member has one session at each broker. A request with epoch 0 starts it, each further request has the next epoch, and -1 ends it.
A session also ends with the connection that started it; then the member's records are released. A rejected request leaves the
session unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from ottla.protocol.errors import Code, KafkaError

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
LAST_EPOCH = (1 << 31) - 1


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class SessionPartition(NamedTuple):
    topic_id: bytes
    partition: int


class ShareSession:
    """One session. ``partitions``, in reading order, map to whether the next response must include the partition.

    ``resolved`` are partitions whose topic has existed (CachedSharePartition.topic). After the topic's deletion their error is
    UNKNOWN_TOPIC_OR_PARTITION, not UNKNOWN_TOPIC_ID.
    """

    __slots__ = ("connection_id", "epoch", "key", "partitions", "resolved")

    def __init__(self, key: SessionKey, partitions: Collection[SessionPartition], connection_id: int) -> None:
        self.key = key
        self.connection_id = connection_id
        self.epoch = next_epoch(INITIAL_EPOCH)
        # Mark no partition, because the session's first response includes every partition anyway.
        self.partitions = dict.fromkeys(partitions, False)
        self.resolved: set[SessionPartition] = set()

    def note_read(self, partition: SessionPartition, *, has_records: bool, is_error: bool) -> bool:
        """Record the result of reading a partition. Returns whether a response after the first includes the partition.

        A partition is included if it has records or an error, is new in the session, or had an error in the previous response.
        """
        was_due = self.partitions.get(partition)
        if was_due is None:
            return False
        if has_records:
            # A partition with records moves to the end, so that it is read last the next time.
            del self.partitions[partition]
        self.partitions[partition] = is_error
        return has_records or is_error or was_due


class ShareSessions:
    """All share sessions of a broker, at most ``most`` (``group.share.max.share.sessions``).

    Together they have at most ``most_partitions`` partitions.
    """

    def __init__(self, most: int, most_partitions: int) -> None:
        self.most = most
        self.most_partitions = most_partitions
        self.partition_count = 0
        self._sessions: dict[SessionKey, ShareSession] = {}
        # Number of sessions by group.
        self._of_groups: Counter[str] = Counter()
        # The sessions that each connection started, by connection id.
        self._by_connection: dict[int, dict[SessionKey, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def has(self, session: ShareSession) -> bool:
        """Whether the session has neither ended nor been replaced."""
        return self._sessions.get(session.key) is session

    def names(self, key: SessionKey, partition: SessionPartition) -> bool:
        """Whether the member has a session that includes this partition."""
        session = self._sessions.get(key)
        return session is not None and partition in session.partitions

    def has_any_of(self, group_id: str) -> bool:
        return self._of_groups[group_id] > 0

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        added: Collection[SessionPartition],
        forgotten: Collection[SessionPartition],
        *,
        has_acknowledgements: bool,
        connection_id: int,
    ) -> ShareSession | None:
        """Continue or start the session of a ShareFetch. Returns None if its epoch (-1) ends the
        session; the caller then calls `end`.

        Raises INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH or SHARE_SESSION_LIMIT_REACHED.
        """
        if epoch == INITIAL_EPOCH:
            return self._begin(key, added, connection_id, has_acknowledgements=has_acknowledgements)
        session = self._continued(key, epoch)
        if epoch == FINAL_EPOCH:
            return None
        self._check_room(sum(partition not in session.partitions for partition in added))
        before = len(session.partitions)
        for partition in added:
            session.partitions.setdefault(partition, True)
        for partition in forgotten:
            session.partitions.pop(partition, None)
            session.resolved.discard(partition)
        self.partition_count += len(session.partitions) - before
        session.epoch = next_epoch(session.epoch)
        return session

    def _check_room(self, more: int) -> None:
        if more and self.partition_count + more > self.most_partitions:
            raise KafkaError(Code.SHARE_SESSION_LIMIT_REACHED)

    def acknowledge(self, key: SessionKey, epoch: int) -> None:
        """Advance the session's epoch for a ShareAcknowledge, which never starts a session.

        Raises SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == INITIAL_EPOCH:
            raise KafkaError(Code.INVALID_SHARE_SESSION_EPOCH)
        session = self._continued(key, epoch)
        if epoch != FINAL_EPOCH:
            session.epoch = next_epoch(session.epoch)

    def end(self, key: SessionKey) -> ShareSession | None:
        """End and return a session, or return None if the member has none."""
        session = self._sessions.pop(key, None)
        if session is None:
            return None
        self.partition_count -= len(session.partitions)
        self._of_groups[key.group_id] -= 1
        if not self._of_groups[key.group_id]:
            del self._of_groups[key.group_id]
        sessions = self._by_connection[session.connection_id]
        del sessions[key]
        if not sessions:
            del self._by_connection[session.connection_id]
        return session

    def disconnected(self, connection_id: int) -> list[ShareSession]:
        """End the sessions of a closed connection, and return them."""
        ended = [self.end(key) for key in list(self._by_connection.get(connection_id, ()))]
        return [session for session in ended if session is not None]

    def clear(self) -> None:
        """Drop all sessions, because share groups are no longer served."""
        self._sessions.clear()
        self._of_groups.clear()
        self.partition_count = 0
        self._by_connection.clear()

    def _begin(
        self, key: SessionKey, partitions: Collection[SessionPartition], connection_id: int, *, has_acknowledgements: bool
    ) -> ShareSession:
        if has_acknowledgements:
            raise KafkaError(Code.INVALID_REQUEST)
        if key not in self._sessions and len(self._sessions) >= self.most:
            raise KafkaError(Code.SHARE_SESSION_LIMIT_REACHED)
        known = self._sessions.get(key)
        self._check_room(len(partitions) - (0 if known is None else len(known.partitions)))
        self.end(key)
        session = self._sessions[key] = ShareSession(key, partitions, connection_id)
        self.partition_count += len(session.partitions)
        self._of_groups[key.group_id] += 1
        self._by_connection.setdefault(connection_id, {})[key] = None
        return session

    def _continued(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(Code.SHARE_SESSION_NOT_FOUND)
        if epoch not in (FINAL_EPOCH, session.epoch):
            raise KafkaError(Code.INVALID_SHARE_SESSION_EPOCH)
        return session


def next_epoch(epoch: int) -> int:
    """Return the next epoch. After the last epoch comes 1, because 0 would start a session (ShareRequestMetadata)."""
    return 1 if epoch == LAST_EPOCH else epoch + 1
