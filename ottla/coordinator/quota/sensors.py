"""A bounded collection of the sensors of clients. If it is full, a new sensor replaces the least recently used one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

MAX_SENSORS = 10_000
"""Maximum number of users, clients and addresses that are measured for one kind of quota. Kafka has no limit.
The names in the keys are short (`precedence.shortened`)."""
EXPIRES_AFTER_MS = 3_600_000
"""Time without requests after which a client's measurements are dropped, in ms (INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS)."""


class Sensor(Protocol):
    used_ms: int
    """The time when a value was last recorded."""


K = TypeVar("K")
V = TypeVar("V", bound=Sensor)


class Sensors(Generic[K, V]):
    """The sensors by key, in the order of their last use."""

    __slots__ = ("_by_key", "_make")

    def __init__(self, make: Callable[[], V]) -> None:
        self._make = make
        self._by_key: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def used(self, key: K, now_ms: int) -> V:
        """Return the sensor of a key, created if missing, and mark it as used now."""
        sensor = self._by_key.pop(key, None)
        if sensor is None:
            self.expire(now_ms)
            if len(self._by_key) >= MAX_SENSORS:
                del self._by_key[next(iter(self._by_key))]
            sensor = self._make()
        sensor.used_ms = now_ms
        self._by_key[key] = sensor
        return sensor

    def expire(self, now_ms: int) -> None:
        """Drop the sensors that were not used for `EXPIRES_AFTER_MS`."""
        while self._by_key:
            key, oldest = next(iter(self._by_key.items()))
            if now_ms - oldest.used_ms <= EXPIRES_AFTER_MS:
                return
            del self._by_key[key]

    def current(self, now_ms: int) -> Iterator[tuple[K, V]]:
        """All sensors that have not expired."""
        self.expire(now_ms)
        return iter(self._by_key.items())
