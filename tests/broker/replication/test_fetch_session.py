"""The partitions that a follower lists in its fetch session, and when it starts a new session."""

from __future__ import annotations

import pytest

from ottla.broker.replication.fetch_session import FetchSession, TopicIdPartition
from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import FetchPartition, FetchResponse

TOPIC = b"t" * 16


def wanted(**offsets: int) -> dict[TopicIdPartition, FetchPartition]:
    """Return fetched partitions by number: `p0=5` is partition 0 at offset 5."""
    numbers = {int(name[1:]): offset for name, offset in offsets.items()}
    return {(TOPIC, index): FetchPartition(partition=index, fetch_offset=offset) for index, offset in numbers.items()}


def named(session: FetchSession, **offsets: int) -> tuple[list[int], list[int]]:
    topics, forgotten = session.name(wanted(**offsets))
    return [p.partition for t in topics for p in t.partitions], [index for t in forgotten for index in t.partitions]


def test_follower_fetch_session_request_lists_only_changed_partitions() -> None:
    session = FetchSession()
    assert named(session, p0=0, p1=0) == ([0, 1], [])
    assert (session.session_id, session.epoch) == (0, 0)
    assert session.answered(FetchResponse(session_id=7))
    assert (session.session_id, session.epoch) == (7, 1)
    assert named(session, p0=5, p1=0) == ([0], [])
    assert session.answered(FetchResponse(session_id=7))
    assert (session.session_id, session.epoch) == (7, 2)
    assert named(session, p0=5, p1=0) == ([], [])
    assert session.answered(FetchResponse(session_id=7))
    assert named(session, p1=0, p2=3) == ([2], [0])


def test_follower_fetch_without_a_session_lists_all_partitions() -> None:
    session = FetchSession()
    for _ in range(2):
        assert named(session, p0=0, p1=0) == ([0, 1], [])
        assert session.answered(FetchResponse(session_id=0))


@pytest.mark.parametrize(
    ("code", "session_id"), [(Code.FETCH_SESSION_ID_NOT_FOUND, 0), (Code.INVALID_FETCH_SESSION_EPOCH, 7)], ids=str
)
def test_follower_starts_a_refused_fetch_session_again(code: Code, session_id: int) -> None:
    session = FetchSession()
    named(session, p0=0)
    session.answered(FetchResponse(session_id=7))
    named(session, p0=0)
    assert not session.answered(FetchResponse(error_code=code))
    # A full request with a known session id makes the leader close that session.
    assert (session.session_id, session.epoch) == (session_id, 0)
    assert named(session, p0=0) == ([0], [])


def test_follower_sends_a_full_fetch_request_after_a_lost_response() -> None:
    session = FetchSession()
    named(session, p0=0)
    session.answered(FetchResponse(session_id=7))
    named(session, p0=0)
    session.lost()
    assert (session.session_id, session.epoch) == (7, 0)
    assert named(session, p0=0) == ([0], [])


def test_fetch_session_epoch_wraps_to_1() -> None:
    session = FetchSession()
    named(session, p0=0)
    session.answered(FetchResponse(session_id=7))
    session.epoch = 0x7FFFFFFF
    named(session, p0=0)
    session.answered(FetchResponse(session_id=7))
    assert session.epoch == 1
