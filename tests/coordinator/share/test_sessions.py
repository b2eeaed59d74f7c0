"""Share sessions: epochs, partitions in a response, and the end of a session."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.coordinator.share_state.sessions import (
    FINAL_EPOCH,
    LAST_EPOCH,
    SessionKey,
    SessionPartition,
    ShareSession,
    ShareSessions,
    next_epoch,
)
from ottla.protocol.errors import Code, KafkaError

KEY, OTHER = SessionKey("g", "a"), SessionKey("g", "b")
P0, P1, P2 = (SessionPartition(bytes(16), partition) for partition in range(3))


def fetch(
    sessions: ShareSessions,
    epoch: int,
    *added: SessionPartition,
    key: SessionKey = KEY,
    forgotten: tuple[SessionPartition, ...] = (),
    acknowledges: bool = False,
    connection: int = 1,
) -> ShareSession:
    session = sessions.fetch(key, epoch, added, forgotten, has_acknowledgements=acknowledges, connection_id=connection)
    assert session is not None
    return session


def refusal(command: Callable[[], object]) -> Code:
    with pytest.raises(KafkaError) as refused:
        command()
    return refused.value.code


def test_share_request_must_have_the_next_share_session_epoch() -> None:
    sessions = ShareSessions(9, 100)
    assert refusal(lambda: fetch(sessions, 1)) is Code.SHARE_SESSION_NOT_FOUND
    assert refusal(lambda: fetch(sessions, FINAL_EPOCH)) is Code.SHARE_SESSION_NOT_FOUND
    fetch(sessions, 0, P0)
    fetch(sessions, 1)
    sessions.acknowledge(KEY, 2)
    for epoch in (1, 2, 4, -2):
        assert refusal(lambda epoch=epoch: fetch(sessions, epoch, P1)) is Code.INVALID_SHARE_SESSION_EPOCH  # type: ignore[misc]
        assert refusal(lambda epoch=epoch: sessions.acknowledge(KEY, epoch)) is Code.INVALID_SHARE_SESSION_EPOCH  # type: ignore[misc]
    assert refusal(lambda: sessions.acknowledge(KEY, 0)) is Code.INVALID_SHARE_SESSION_EPOCH
    assert refusal(lambda: sessions.acknowledge(OTHER, 1)) is Code.SHARE_SESSION_NOT_FOUND
    session = fetch(sessions, 3)
    assert (session.epoch, list(session.partitions)) == (4, [P0]), "a refused request adds no partition"
    assert (next_epoch(0), next_epoch(LAST_EPOCH)) == (1, 1)


def test_share_request_with_the_final_epoch_leaves_the_session_open_until_its_explicit_end() -> None:
    sessions = ShareSessions(9, 100)
    fetch(sessions, 0, P0)
    sessions.acknowledge(KEY, FINAL_EPOCH)
    assert sessions.fetch(KEY, FINAL_EPOCH, [], [], has_acknowledgements=True, connection_id=1) is None
    ended = sessions.end(KEY)
    assert ended is not None
    assert ended.key == KEY
    assert sessions.end(KEY) is None
    assert refusal(lambda: fetch(sessions, 1)) is Code.SHARE_SESSION_NOT_FOUND


def test_new_share_session_of_a_member_replaces_its_old_session() -> None:
    sessions = ShareSessions(1, 100)
    fetch(sessions, 0, P0)
    assert refusal(lambda: fetch(sessions, 0, P1, acknowledges=True)) is Code.INVALID_REQUEST
    assert refusal(lambda: fetch(sessions, 0, P1, key=OTHER)) is Code.SHARE_SESSION_LIMIT_REACHED
    assert list(fetch(sessions, 0, P1, connection=2).partitions) == [P1]
    assert len(sessions) == 1
    assert sessions.disconnected(1) == [], "the first session of the connection was already replaced"
    assert [ended.key for ended in sessions.disconnected(2)] == [KEY]
    assert len(sessions) == 0


def test_share_session_ends_with_its_connection() -> None:
    sessions = ShareSessions(9, 100)
    fetch(sessions, 0, P0)
    fetch(sessions, 0, P1, key=OTHER)
    fetch(sessions, 0, P2, key=SessionKey("h", "a"), connection=2)
    assert [ended.key for ended in sessions.disconnected(1)] == [KEY, OTHER]
    assert (len(sessions), sessions.partition_count) == (1, 1)
    assert sessions.disconnected(1) == []


def test_share_fetch_response_contains_only_changed_partitions() -> None:
    sessions = ShareSessions(9, 100)
    fetch(sessions, 0, P0, P1)
    session = fetch(sessions, 1, P2)
    assert not session.note_read(P0, has_records=False, is_error=False)
    assert session.note_read(P2, has_records=False, is_error=False), "the partition is new in the session"
    assert not session.note_read(P2, has_records=False, is_error=False)
    assert session.note_read(P1, has_records=False, is_error=True)
    assert session.note_read(P1, has_records=False, is_error=False), "the partition no longer has an error"
    assert not session.note_read(P1, has_records=False, is_error=False)
    assert session.note_read(P0, has_records=True, is_error=False)
    assert list(session.partitions) == [P1, P2, P0], "a partition that returned records is read last next time"
    session = fetch(sessions, 2, P1, forgotten=(P2, P2))
    assert list(session.partitions) == [P1, P0]
    assert not session.note_read(P2, has_records=True, is_error=False)
