"""The quotas of connections by client address (ConnectionQuotas.recordIpConnectionMaybeThrottle, KIP-612)."""

from __future__ import annotations

from ipaddress import ip_address

from ottla.coordinator.quota.sampled import METRIC_WINDOWS, Sampled, Windows, throttle_ms
from ottla.coordinator.quota.sensors import Sensors


class AddressSensor:
    __slots__ = ("rate", "used_ms")

    def __init__(self, windows: Windows) -> None:
        self.rate = Sampled(windows)
        self.used_ms = 0


class ConnectionRates:
    """The limits of client addresses, and the recent connections of each address."""

    def __init__(self, windows: Windows) -> None:
        self._limits: dict[str | None, float] = {}
        self._windows = windows
        self.sensors: Sensors[str, AddressSensor] = Sensors(lambda: AddressSensor(windows))
        self.throttle_times: dict[str, Sampled] = {}
        """Throttle times by listener, in ms."""

    def set(self, address: str | None, limit: float | None) -> None:
        """Set the limit of an address, in connections per second. Address None sets the default; limit None removes the limit."""
        key = None if address is None else _normalized(address)
        if limit is None:
            self._limits.pop(key, None)
        else:
            self._limits[key] = limit

    def record(self, address: str, listener: str, now_ms: int) -> int:
        """Record a new connection to a listener.

        Returns after how many ms it must be closed, at most the length of a sample, or 0 to accept it.

        A connection that is not accepted is not counted.
        """
        limit = self._limits.get(address, self._limits.get(None))
        if limit is None:
            return 0
        rate = self.sensors.used(address, now_ms).rate
        rate.record(1, now_ms)
        wait_ms = min(throttle_ms(rate, limit, now_ms), self._windows.size_ms)
        if wait_ms:
            rate.record(-1, now_ms)
            self.throttle_times.setdefault(listener, Sampled(METRIC_WINDOWS)).record(wait_ms, now_ms)
        return wait_ms


def _normalized(name: str) -> str:
    """The address in the form in which connections report it. Kafka resolves any host name; ottla only ``localhost``."""
    if name == "localhost":
        return "127.0.0.1"
    try:
        address = ip_address(name)
    except ValueError:
        # Apache Kafka stored a host name. It equals no client's address, so its quota applies to no client.
        return name
    return str(getattr(address, "ipv4_mapped", None) or address)
