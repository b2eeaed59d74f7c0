"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

import itertools

import pytest

from ottla.broker.limits.fetch_sessions import FetchSessions, RequestedPartition
from ottla.protocol.errors import Code, KafkaError

A, B = (b"", "a", 0), (b"", "b", 0)


def asked(key: tuple[bytes, str, int], offset: int = 0) -> RequestedPartition:
    return RequestedPartition(key, offset, 1_000, -1)


def named(*keys: tuple[bytes, str, int]) -> dict[tuple[bytes, str, int], RequestedPartition]:
    return {key: asked(key) for key in keys}


def sessions(slots: int = 2, max_partitions: int = 100) -> FetchSessions:
    ids = itertools.count(1)
    return FetchSessions(slots, max_partitions, lambda: next(ids))


def test_fetch_session_epochs_must_be_consecutive() -> None:
    cache = sessions()
    session = cache.open(named(A), 0)
    assert session is not None
    assert cache.resume(1, 1, 0) is session
    assert cache.resume(1, 2, 0) is session
    with pytest.raises(KafkaError, match=Code.INVALID_FETCH_SESSION_EPOCH.name):
        cache.resume(1, 2, 0)
    with pytest.raises(KafkaError, match=Code.FETCH_SESSION_ID_NOT_FOUND.name):
        cache.resume(9, 1, 0)


def test_incremental_fetch_adds_and_removes_partitions_of_its_session() -> None:
    session = sessions().open(named(A, B), 0)
    assert session is not None
    session.update([asked(A, 7)], [B])
    assert {k: a.fetch_offset for k, a in session.partitions.items()} == {A: 7}


def test_partitions_with_records_move_to_the_end_of_the_fetch_session() -> None:
    session = sessions().open(named(A, B), 0)
    assert session is not None
    session.served(A)
    assert list(session.partitions) == [B, A]


def test_full_fetch_session_cache_evicts_only_old_sessions() -> None:
    cache = sessions(slots=1)
    cache.open(named(A), 0)
    assert cache.open(named(B), 1_000) is None
    assert cache.open(named(B), cache.EVICTABLE_AFTER_MS) is not None
    assert len(cache) == 1


def test_number_of_partitions_in_all_fetch_sessions_is_bounded() -> None:
    cache = sessions(slots=9, max_partitions=3)
    first = cache.open(named(A, B), 0)
    assert first is not None
    assert cache.open(named(A, B), 0) is None
    second = cache.open(named(A), 0)
    assert second is not None
    cache.update(second, [asked(A, 5)], [])
    with pytest.raises(KafkaError, match=Code.FETCH_SESSION_ID_NOT_FOUND.name):
        cache.update(second, [asked(B)], [])
    assert (len(cache), cache.partition_count) == (1, 2)
    cache.update(first, [], [A])
    cache.close(first.session_id)
    assert cache.partition_count == 0


def test_old_fetch_sessions_are_evicted_when_partitions_reach_the_limit() -> None:
    cache = sessions(slots=9, max_partitions=2)
    cache.open(named(A), 0)
    cache.open(named(B), 0)
    assert cache.open(named(A, B), cache.EVICTABLE_AFTER_MS) is not None
    assert cache.partition_count == 2
