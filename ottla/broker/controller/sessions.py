"""The periodic decisions of a controller: ends sessions, elects preferred and unclean leaders, removes expired tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.loop.env import Clock, Timer, Timers
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.metadata.cluster import NEXT_SWEEP_MS
from ottla.protocol.errors import KafkaError

SHORTEST_WAIT_MS = 10
"""Shortest time in ms between two checks of the sessions. After a shorter wait, rounding might start the check just before a
session ends."""
OBSERVER_SESSION_MS = 300_000
"""Time in ms for which a broker that no longer fetches is still shown as an observer (LeaderState.OBSERVER_SESSION_TIMEOUT_MS)."""
MORE_ELECTIONS_MS = 10
"""Delay in ms before the next elections if one decision could not elect all leaders."""
REFUSED_WAIT_MS = 1_000
"""Delay in ms before a decision is retried after the log refused its record."""

log = structlog.get_logger("controller")


class TimedEnv(Clock, Timers, Protocol):
    """The parts of `broker.loop.env.Env` that `TimedDecisions` uses."""


class TimedDecisions:
    """Makes each periodic decision when it is due, between `start` and `stop`. Failures are logged and retried."""

    def __init__(
        self,
        env: TimedEnv,
        metadata: ControllerMetadata,
        lifecycle: Lifecycle,
        *,
        rebalance_interval_ms: int | None,
        unclean_interval_ms: int,
        token_interval_ms: int | None,
    ) -> None:
        """``rebalance_interval_ms`` is None if preferred leaders are not elected automatically (``auto.leader.rebalance.enable``).
        ``token_interval_ms`` is None if delegation tokens are disabled."""
        self._env = env
        self._metadata = metadata
        self._lifecycle = lifecycle
        self._rebalance_interval_ms = rebalance_interval_ms
        self._unclean_interval_ms = unclean_interval_ms
        self._token_interval_ms = token_interval_ms
        self._timers: dict[str, Timer] = {}
        self._errors = RepeatedErrors(env, log)

    def start(self) -> None:
        self._again("sessions", self._session_wait_ms(), self._check_sessions)
        if self._rebalance_interval_ms is not None:
            self._again("rebalance", self._rebalance_interval_ms, self._rebalance)
        self._again("unclean_elections", self._unclean_interval_ms, self._elect_unclean)
        if self._token_interval_ms is not None:
            self._again("delegation_tokens", self._token_interval_ms, self._sweep_tokens, may_have_secrets=True)
        self._again("observers", OBSERVER_SESSION_MS, self._forget_observers)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _again(self, name: str, delay_ms: int, decide: Callable[[], int], *, may_have_secrets: bool = False) -> None:
        def due() -> None:
            if self._lifecycle.is_stopping:
                return
            next_ms = delay_ms
            try:
                next_ms = decide()
                self._errors.succeeded(name)
            except KafkaError as error:
                # The log refused the decision's record. The log itself has already reported this as an error.
                self._errors.failed("controller_decision_delayed", str(error), key=name, decision=name)
                next_ms = max(delay_ms, REFUSED_WAIT_MS)
            except Exception:
                self._lifecycle.bug("controller_decision_failed", may_have_secrets=may_have_secrets, decision=name)
            self._again(name, next_ms, decide, may_have_secrets=may_have_secrets)

        self._timers[name] = self._env.call_by_clock(delay_ms, due)

    def _session_wait_ms(self) -> int:
        """The time in ms until the next session may end, at most the session timeout, because a new session lasts that long."""
        next_ms, session_ms = self._metadata.heartbeats.next_check_ms(), self._metadata.heartbeats.session_timeout_ms
        wait_ms = session_ms if next_ms is None else next_ms - self._env.steady_ms()
        return max(SHORTEST_WAIT_MS, min(wait_ms, session_ms))

    def _check_sessions(self) -> int:
        self._metadata.fence_expired_brokers()
        return self._session_wait_ms()

    def _rebalance(self) -> int:
        assert self._rebalance_interval_ms is not None
        return MORE_ELECTIONS_MS if self._metadata.rebalance_leaders() else self._rebalance_interval_ms

    def _sweep_tokens(self) -> int:
        assert self._token_interval_ms is not None
        return NEXT_SWEEP_MS if self._metadata.sweep_tokens() else self._token_interval_ms

    def _forget_observers(self) -> int:
        self._metadata.log.forget_observers(self._env.now_ms() - OBSERVER_SESSION_MS)
        return OBSERVER_SESSION_MS

    def _elect_unclean(self) -> int:
        return MORE_ELECTIONS_MS if self._metadata.elect_unclean_leaders() else self._unclean_interval_ms
