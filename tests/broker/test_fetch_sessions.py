"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

import itertools

import pytest

from broker.fetch_sessions import Asked, FetchSessions
from protocol.errors import Code, KafkaError

A, B = (b"", "a", 0), (b"", "b", 0)


def asked(key: tuple[bytes, str, int], offset: int = 0) -> Asked:
    return Asked(key, offset, 1_000, -1)


def sessions(slots: int = 2) -> FetchSessions:
    ids = itertools.count(1)
    return FetchSessions(slots, lambda: next(ids))


def test_epochs_must_follow_each_other() -> None:
    cache = sessions()
    session = cache.open([asked(A)], 0)
    assert session is not None
    assert cache.resume(1, 1, 0) is session
    assert cache.resume(1, 2, 0) is session
    with pytest.raises(KafkaError, match=Code.INVALID_FETCH_SESSION_EPOCH.name):
        cache.resume(1, 2, 0)
    with pytest.raises(KafkaError, match=Code.FETCH_SESSION_ID_NOT_FOUND.name):
        cache.resume(9, 1, 0)


def test_updates_and_what_is_forgotten() -> None:
    session = sessions().open([asked(A), asked(B)], 0)
    assert session is not None
    session.update([asked(A, 7)], [B])
    assert {k: a.fetch_offset for k, a in session.partitions.items()} == {A: 7}


def test_busy_partitions_move_behind_the_others() -> None:
    session = sessions().open([asked(A), asked(B)], 0)
    assert session is not None
    session.served(A)
    assert list(session.partitions) == [B, A]


def test_a_full_cache_evicts_only_what_is_old() -> None:
    cache = sessions(slots=1)
    cache.open([asked(A)], 0)
    assert cache.open([asked(B)], 1_000) is None
    assert cache.open([asked(B)], cache.EVICTABLE_AFTER_MS) is not None
    assert len(cache) == 1
