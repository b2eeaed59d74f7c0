"""Connections beyond ``max.connection.creation.rate`` are accepted later, as by Kafka's acceptor (ConnectionQuotasTest)."""

from __future__ import annotations

import pytest

from ottla.coordinator.quota.accept_limits import AcceptLimits
from ottla.coordinator.quota.sampled import Windows

WINDOWS = Windows(count=11, size_ms=1_000)
UNLIMITED = 2**31 - 1


def limits(broker: int, protected: str | None = None, **listeners: int) -> AcceptLimits:
    made = AcceptLimits(WINDOWS, protected)
    made.set(broker, {"IN": UNLIMITED, "OUT": UNLIMITED, **listeners})
    return made


def test_connections_below_the_rate_limit_are_accepted_at_once() -> None:
    made = limits(10)
    # The rate in a new window is computed as if the window were ten seconds long.
    assert [made.accepted_after_ms("IN", 5) for _ in range(100)] == [0] * 100
    assert made.accepted_after_ms("IN", 5) > 0


def test_connections_beyond_the_rate_limit_are_accepted_one_after_another_per_listener() -> None:
    made = limits(UNLIMITED, IN=1)
    waits = [made.accepted_after_ms("IN", 0) for _ in range(13)]
    assert waits[:10] == [0] * 10
    # Each connection waits for at most the duration of one sample after the previous connection.
    assert waits[10:] == [1_000, 2_000, 3_000]
    assert made.accepted_after_ms("IN", 2_500) > 500
    assert made.accepted_after_ms("OUT", 0) == 0


def test_long_term_connection_rate_equals_the_limit() -> None:
    made = limits(UNLIMITED, IN=5)
    last_ms = [made.accepted_after_ms("IN", 0) for _ in range(550)][-1]
    # The first 50 connections use the whole window, so the other 500 wait.
    assert last_ms == pytest.approx(500 / 5 * 1_000, rel=0.05)


def test_connection_rate_limit_of_the_broker_counts_all_listeners() -> None:
    made = limits(1)
    assert [made.accepted_after_ms(name, 0) for name in ["IN", "OUT"] * 5] == [0] * 10
    assert made.accepted_after_ms("IN", 0) == made.accepted_after_ms("OUT", 0) == 1_000


def test_inter_broker_listener_has_only_its_own_connection_rate_limit() -> None:
    made = limits(1, protected="IN")
    assert [made.accepted_after_ms("OUT", 0) for _ in range(11)][-1] == 1_000
    assert [made.accepted_after_ms("IN", 0) for _ in range(20)] == [0] * 20
    made.set(1, {"IN": 1, "OUT": UNLIMITED})
    assert made.accepted_after_ms("IN", 0) == 1_000


def test_changed_connection_rate_limit_applies_to_the_next_connection() -> None:
    made = limits(1)
    assert [made.accepted_after_ms("IN", 0) for _ in range(11)][-1] == 1_000
    made.set(100, {})
    assert made.accepted_after_ms("IN", 1_000) == 0


def test_connection_rate_limit_of_zero_accepts_one_connection_in_each_sample() -> None:
    made = limits(0)
    assert [made.accepted_after_ms("IN", 0) for _ in range(3)] == [1_000, 2_000, 3_000]


def test_connection_refused_by_the_quota_of_its_address_does_not_count() -> None:
    made = limits(1, IN=1)
    for _ in range(50):
        assert made.accepted_after_ms("IN", 0) == 0
        made.unrecord("IN")
    assert [made.accepted_after_ms("IN", 0) for _ in range(11)] == [0] * 10 + [1_000]


def test_refused_connection_to_the_inter_broker_listener_does_not_count() -> None:
    made = limits(1, protected="IN", IN=1)
    for _ in range(50):
        assert made.accepted_after_ms("IN", 0) == 0
        made.unrecord("IN")
    assert [made.accepted_after_ms("OUT", 0) for _ in range(11)] == [0] * 10 + [1_000]


def test_throttle_times_of_connections_are_measured_by_listener() -> None:
    made = limits(UNLIMITED, IN=1)
    for listener in ("IN", "OUT"):
        for _ in range(12):
            made.accepted_after_ms(listener, 0)
    assert {listener: times.mean(0) for listener, times in made.throttle_times.items()} == {"IN": 1_000}
