"""How many connections a broker and each of its listeners accept per second (``max.connection.creation.rate``, KIP-612).

Kafka's acceptor of a listener waits after a connection that exceeds a limit, and takes the next one afterwards
(ConnectionQuotas.waitForConnectionSlot). Here the connection is accepted, but not read before the time when Kafka would accept it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.quota.sampled import METRIC_WINDOWS, Sampled, Windows, throttle_ms


class AcceptLimits:
    """The limits of a broker and its listeners, and their recent connections.

    The limit of the broker does not apply to ``protected``, the listener for other brokers, if there are other listeners.
    """

    def __init__(self, windows: Windows, protected: str | None) -> None:
        self._windows = windows
        self._protected = protected
        self._broker_limit = 0
        self._limits: Mapping[str, int] = {}
        self._broker = Sampled(windows)
        self._listeners: dict[str, Sampled] = {}
        self._free_ms: dict[str, int] = {}
        """Time, in ms, at which the acceptor of a listener would take its next connection."""
        self._last_ms = 0
        self.throttle_times: dict[str, Sampled] = {}
        """Throttle times by listener, in ms."""

    def set(self, broker_limit: int, limits: Mapping[str, int]) -> None:
        """Set the allowed connections per second of the broker and of each listener. Earlier connections still count."""
        self._broker_limit, self._limits = broker_limit, limits

    def accepted_after_ms(self, listener: str, now_ms: int) -> int:
        """Record a new connection; returns after how many ms Kafka would accept it."""
        turn_ms = max(now_ms, self._free_ms.get(listener, 0))
        wait_ms = 0
        if listener != self._protected:
            # Times must not decrease: the previous connection may have a future time, at which Kafka would accept it.
            self._last_ms = max(self._last_ms, turn_ms)
            wait_ms = self._recorded(self._broker, self._broker_limit, self._last_ms)
        if listener in self._limits:
            of_listener = self._listeners.setdefault(listener, Sampled(self._windows))
            wait_ms = max(wait_ms, self._recorded(of_listener, self._limits[listener], turn_ms))
            if wait_ms:
                self.throttle_times.setdefault(listener, Sampled(METRIC_WINDOWS)).record(wait_ms, turn_ms)
        self._free_ms[listener] = turn_ms + wait_ms
        return turn_ms + wait_ms - now_ms

    def unrecord(self, listener: str) -> None:
        """Undo the record of the last connection to a listener, because the quota of its address refuses it
        (ConnectionQuotas.updateListenerMetrics)."""
        if listener != self._protected:
            self._broker.record(-1, self._last_ms)
        if listener in self._listeners:
            self._listeners[listener].record(-1, self._free_ms[listener])

    def _recorded(self, sampled: Sampled, limit: int, at_ms: int) -> int:
        sampled.record(1, at_ms)
        return min(throttle_ms(sampled, limit, at_ms), self._windows.size_ms)
