"""What time brings about at a controller: brokers' sessions end, and leaderships go back to preferred leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.loop.env import Clock, Timer, Timers
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.protocol.errors import KafkaError

SHORTEST_WAIT_MS = 10
"""The least time between two checks of the sessions, so that a clock of whole milliseconds does not make it two for one."""
OBSERVER_SESSION_MS = 300_000
"""For how long a broker that does not fetch any more is shown as an observer (LeaderState.OBSERVER_SESSION_TIMEOUT_MS)."""
MORE_ELECTIONS_MS = 10
"""When elections go on that were too many for one round."""
REFUSED_WAIT_MS = 1_000
"""When a decision that the log has refused is made again, in ms."""

log = structlog.get_logger("controller")


class TimedEnv(Clock, Timers, Protocol):
    """What timed decisions need of `broker.loop.env.Env`."""


class TimedDecisions:
    """Makes the decisions that are due, from `start` to `stop`. One that fails is logged and made again later."""

    def __init__(
        self,
        env: TimedEnv,
        metadata: ControllerMetadata,
        lifecycle: Lifecycle,
        *,
        rebalance_interval_ms: int | None,
        unclean_interval_ms: int,
    ) -> None:
        """``rebalance_interval_ms`` is None where leaderships stay where they are (``auto.leader.rebalance.enable``)."""
        self._env = env
        self._metadata = metadata
        self._lifecycle = lifecycle
        self._rebalance_interval_ms = rebalance_interval_ms
        self._unclean_interval_ms = unclean_interval_ms
        self._timers: dict[str, Timer] = {}
        self._errors = RepeatedErrors(env, log)

    def start(self) -> None:
        self._again("sessions", self._session_wait_ms(), self._check_sessions)
        if self._rebalance_interval_ms is not None:
            self._again("rebalance", self._rebalance_interval_ms, self._rebalance)
        self._again("unclean_elections", self._unclean_interval_ms, self._elect_unclean)
        self._again("observers", OBSERVER_SESSION_MS, self._forget_observers)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _again(self, name: str, delay_ms: int, decide: Callable[[], int]) -> None:
        def due() -> None:
            if self._lifecycle.is_stopping:
                return
            next_ms = delay_ms
            try:
                next_ms = decide()
                self._errors.succeeded(name)
            except KafkaError as error:
                # The disk takes no record now, which is logged already.
                self._errors.failed("decision_delayed", str(error), key=name, decision=name)
                next_ms = max(delay_ms, REFUSED_WAIT_MS)
            except Exception:
                self._lifecycle.bug("decision_failed", decision=name)
            self._again(name, next_ms, decide)

        self._timers[name] = self._env.call_by_clock(delay_ms, due)

    def _session_wait_ms(self) -> int:
        """How long until the next session may end: a new broker's cannot end before a whole session."""
        next_ms, session_ms = self._metadata.heartbeats.next_check_ms(), self._metadata.heartbeats.session_timeout_ms
        wait_ms = session_ms if next_ms is None else next_ms - self._env.steady_ms()
        return max(SHORTEST_WAIT_MS, min(wait_ms, session_ms))

    def _check_sessions(self) -> int:
        self._metadata.fence_expired_brokers()
        return self._session_wait_ms()

    def _rebalance(self) -> int:
        assert self._rebalance_interval_ms is not None
        return MORE_ELECTIONS_MS if self._metadata.rebalance_leaders() else self._rebalance_interval_ms

    def _forget_observers(self) -> int:
        self._metadata.log.forget_observers(self._env.now_ms() - OBSERVER_SESSION_MS)
        return OBSERVER_SESSION_MS

    def _elect_unclean(self) -> int:
        return MORE_ELECTIONS_MS if self._metadata.elect_unclean_leaders() else self._unclean_interval_ms
