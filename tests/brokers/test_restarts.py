"""Delays before ended nodes of a cluster are restarted."""

from __future__ import annotations

from ottla.brokers.restarts import LONGEST_DELAY_S, STEADY_S, Restarts


def test_restart_delay_of_a_crashing_node_doubles_up_to_a_minute() -> None:
    restarts, now_s, delays = Restarts(), 0.0, list[float]()
    for _ in range(9):
        restarts.started(1, now_s)
        delays.append(restarts.ended(1, now_s + 1))
        now_s += 1 + delays[-1]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, LONGEST_DELAY_S]


def test_node_that_ran_long_before_it_ended_is_restarted_after_the_initial_delay() -> None:
    restarts = Restarts()
    for now_s in (0.0, 1.0, 2.0):
        restarts.started(1, now_s)
        restarts.ended(1, now_s)
    restarts.started(1, 10)
    assert restarts.ended(1, 10 + STEADY_S) == 1


def test_ended_node_is_scheduled_for_restart_once() -> None:
    restarts = Restarts()
    restarts.started(1, 0)
    restarts.started(2, 0)
    restarts.ended(1, 5)
    assert (restarts.due(5.5), restarts.due(6), bool(restarts)) == ([], [1], True)
    restarts.started(1, 6)
    assert (restarts.due(100), bool(restarts)) == ([], False)
