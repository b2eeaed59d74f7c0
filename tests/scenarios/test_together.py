"""Plays, which are functions that send requests to a shared broker, run concurrently and share its restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from tests.scenarios.together import Play, Together

LONG_S = 10


class Restarts:
    """A broker that lists its restarts in ``log``. The scenarios of the tests append their own events to ``log``."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def restart(self, kill: bool) -> None:
        self.log.append("kill" if kill else "restart")


def test_concurrent_scenarios_return_their_outcomes_in_the_given_order() -> None:
    def fails() -> int:
        raise KeyError("of its own")

    asks: list[Callable[[], int]] = [lambda: 1, fails, lambda: 3]
    one, two, three = Together[int](Restarts().restart, at_once=2).play([Play(ask) for ask in asks])
    assert (one.result(), three.result()) == (1, 3)
    with pytest.raises(KeyError, match="of its own"):
        two.result()


def test_scenarios_run_concurrently_up_to_the_limit() -> None:
    met = threading.Barrier(3)

    def play() -> int:
        return met.wait(LONG_S)

    outcomes = Together[int](Restarts().restart, at_once=3).play([Play(play)] * 6)
    assert sorted(outcome.result() for outcome in outcomes) == [0, 0, 1, 1, 2, 2]


def test_number_of_concurrent_scenarios_does_not_exceed_the_limit() -> None:
    playing: list[int] = []
    most: list[int] = []
    met = threading.Barrier(2)

    def play() -> None:
        playing.append(1)
        most.append(len(playing))
        met.wait(LONG_S)
        playing.pop()

    Together[None](Restarts().restart, at_once=2).play([Play(play)] * 20)
    assert max(most) <= 2


@pytest.mark.parametrize("at_once", [1, 2, 8])
def test_one_broker_restart_serves_all_scenarios_that_wait_for_a_restart(at_once: int) -> None:
    broker = Restarts()
    together = Together[None](broker.restart, at_once)

    def play() -> None:
        broker.log.append("before")
        together.restart()
        broker.log.append("after")

    for outcome in together.play([Play(play)] * 4):
        outcome.result()
    assert broker.log == ["before"] * 4 + ["restart"] + ["after"] * 4


def test_broker_restarts_after_scenarios_that_do_not_restart_it_have_ended() -> None:
    broker = Restarts()
    together = Together[None](broker.restart, at_once=2)

    def restarts(times: int) -> Callable[[], None]:
        def play() -> None:
            for _ in range(times):
                together.restart()
            broker.log.append(f"{times} times")

        return play

    for outcome in together.play([Play(restarts(times)) for times in (2, 0, 1)]):
        outcome.result()
    assert broker.log == ["0 times", "restart", "1 times", "restart", "2 times"]


def test_broker_kill_does_not_serve_scenarios_that_wait_for_a_clean_restart() -> None:
    broker = Restarts()
    together = Together[None](broker.restart, at_once=1)

    def play(kill: bool) -> None:
        together.restart(kill=kill)
        broker.log.append(f"after {'kill' if kill else 'restart'}")

    for outcome in together.play([Play(partial(play, kill)) for kill in (True, False, True)]):
        outcome.result()
    # The functions that requested a kill end before the clean stop.
    assert broker.log == ["kill", "after kill", "after kill", "restart", "after restart"]


def test_failed_broker_restart_fails_all_scenarios_that_wait_for_it() -> None:
    def fails(kill: bool) -> None:
        raise OSError("it did not start")

    together = Together[None](fails, at_once=2)
    for outcome in together.play([Play(together.restart), Play(together.restart)]):
        with pytest.raises(OSError, match="it did not start"):
            outcome.result()


def test_sequential_scenarios_run_in_order_and_switch_only_at_restarts() -> None:
    broker = Restarts()
    together = Together[None](broker.restart, at_once=1)

    def named(name: str) -> Callable[[], None]:
        def play() -> None:
            broker.log.extend([f"{name}1", f"{name}2"])
            together.restart()
            broker.log.extend([f"{name}3", f"{name}4"])

        return play

    together.play([Play(named("a")), Play(named("b"))])
    assert broker.log == ["a1", "a2", "b1", "b2", "restart", "a3", "a4", "b3", "b4"]


def test_exclusive_scenario_runs_alone() -> None:
    broker = Restarts()
    together = Together[None](broker.restart, at_once=2)
    met = threading.Barrier(2)

    def many() -> None:
        met.wait(LONG_S)
        broker.log.append("many")
        together.restart()
        met.wait(LONG_S)
        broker.log.append("many")

    def single(name: str) -> None:
        broker.log.extend([f"{name} begins", f"{name} waits"])
        together.restart()
        broker.log.extend([f"{name} goes on", f"{name} ends"])

    plays = [Play(many), Play(many), Play(partial(single, "one"), single=True), Play(partial(single, "two"), single=True)]
    for outcome in together.play(plays):
        outcome.result()
    before = ["many", "many", "one begins", "one waits", "two begins", "two waits"]
    assert broker.log[: len(before) + 1] == [*before, "restart"]
    after = broker.log[len(before) + 1 :]
    assert after.count("many") == 2
    for name in ("one", "two"):
        assert after.index(f"{name} ends") == after.index(f"{name} goes on") + 1
