"""The quotas of one kind, and the use that each client makes of them (ClientQuotaManager, ClientRequestQuotaManager)."""

from __future__ import annotations

import math

from ottla.coordinator.quota.precedence import Limits, Sharing
from ottla.coordinator.quota.sampled import METRIC_WINDOWS, Sampled, Windows, throttle_ms
from ottla.coordinator.quota.sensors import Sensors


class ClientSensor:
    """The rate and throttle times of all clients that share one quota."""

    __slots__ = ("rate", "throttle_times", "used_ms")

    def __init__(self, windows: Windows) -> None:
        self.rate = Sampled(windows)
        self.throttle_times = Sampled(METRIC_WINDOWS)
        self.used_ms = 0


class ClientQuotaManager:
    """Measures a rate for each client, such as the bytes that it produces."""

    def __init__(self, limits: Limits, windows: Windows, max_throttle_ms: int | None = None) -> None:
        self.limits = limits
        self._windows = windows
        self._max_throttle_ms = max_throttle_ms
        self.sensors: Sensors[Sharing, ClientSensor] = Sensors(lambda: ClientSensor(windows))

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Record a value; returns how long the client must be throttled, in ms."""
        sharing = self.limits.sharing(user, client_id)
        rate = self.sensors.used(sharing, now_ms).rate
        rate.record(value, now_ms)
        limit = self.limits.limit(sharing)
        if limit is None:
            # As in Kafka, the rate is also computed for clients without a quota, because this drops old samples.
            limit = math.inf
        wait_ms = throttle_ms(rate, limit, now_ms)
        return wait_ms if self._max_throttle_ms is None else min(wait_ms, self._max_throttle_ms)

    def unrecord(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Undo the record of a value, because the client does not get the data."""
        self.sensors.used(self.limits.sharing(user, client_id), now_ms).rate.record(-value, now_ms)

    def most_in_window(self, user: str, client_id: str) -> float | None:
        """The largest value that does not exceed a client's quota if no other value is in the window; None without a quota."""
        limit = self.limits.limit(self.limits.sharing(user, client_id))
        return None if limit is None else limit * (self._windows.count - 1) * (self._windows.size_ms // 1000)
