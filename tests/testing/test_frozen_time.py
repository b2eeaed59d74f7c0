"""Deadlines work although a test has frozen the time as freezegun does, by replacing functions of the `time` module."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest

import ottla.testing.cluster_queries as cluster_queries
from ottla.client.real_time import monotonic_s, now_ms
from ottla.control.faults.remote_faults import RemoteFault
from ottla.testing.cluster_queries import wait_for

FROZEN_S = 1_000.0


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Freeze the same clocks as freezegun, by replacing functions of `time`."""
    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, lambda: FROZEN_S)
        monkeypatch.setattr(time, f"{name}_ns", lambda: int(FROZEN_S) * 1_000_000_000)


def calls_until(limit: int) -> Any:
    """Return a function that returns False, and that fails after more than ``limit`` calls."""
    calls = iter(range(limit))

    def call(*_: object) -> bool:
        assert next(calls, None) is not None, "the deadline did not expire"
        return False

    return call


def test_elapsed_real_time_is_measured_under_a_frozen_clock() -> None:
    before_s = monotonic_s()
    threading.Event().wait(0.001)
    assert monotonic_s() > before_s
    assert now_ms() > FROZEN_S * 1_000


def test_wait_for_times_out_under_a_frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_queries, "PAUSE_S", 0)
    with pytest.raises(TimeoutError, match=r"Condition not met within 0\.001 s; last value: False"):
        wait_for(calls_until(100_000), 0.001)


def test_wait_for_a_fault_times_out_under_a_frozen_clock() -> None:
    never = calls_until(100_000)

    class Control:
        def post(self, path: str, parameters: object) -> dict[str, int]:
            return {"hits": int(never())}

    with pytest.raises(TimeoutError, match=r"was triggered 0 times in 0\.01 s"):
        RemoteFault(lambda: cast(Any, Control()), 1).wait(1, 0.01)


def test_deadlines_of_the_client_ignore_a_clock_frozen_by_freezegun() -> None:
    from ottla.client.cluster import BrokerConnections

    before_s = BrokerConnections("127.0.0.1:1")._clock()
    threading.Event().wait(0.001)
    assert BrokerConnections("127.0.0.1:1")._clock() > before_s
