"""The quota of topic partitions that clients create and delete (ControllerMutationQuotaManager, KIP-599).

A strict quota refuses changes while the token bucket is exhausted, but not the change that exhausts it, however large. A permissive
quota, for older versions of requests, allows all changes, and the client is throttled.
"""

from __future__ import annotations

from ottla.coordinator.quota.precedence import Limits, Sharing
from ottla.coordinator.quota.sampled import METRIC_WINDOWS, Sampled, Windows
from ottla.coordinator.quota.sensors import Sensors
from ottla.coordinator.quota.token_bucket import TokenBucket
from ottla.protocol.errors import Code, KafkaError

UNLIMITED_RATE = 2.0**63
"""The rate of clients without a quota, which fills any bucket at once (Long.MAX_VALUE)."""
EXCEEDED = "The throttling quota has been exceeded."


class MutationSensor:
    """The recent changes of all clients that share one quota."""

    __slots__ = ("bucket", "rate", "throttle_times", "used_ms")

    def __init__(self, windows: Windows) -> None:
        self.bucket = TokenBucket(windows)
        self.rate = Sampled(METRIC_WINDOWS)
        self.throttle_times = Sampled(METRIC_WINDOWS)
        self.used_ms = 0


class MutationQuota:
    """The quota of one request. ``rate`` is the number of partitions per second."""

    __slots__ = ("_is_strict", "_recorded_ms", "_sensor", "_wait_ms", "rate")

    def __init__(self, sensor: MutationSensor, rate: float, *, is_strict: bool) -> None:
        self._sensor = sensor
        self.rate = rate
        self._is_strict = is_strict
        self._wait_ms = 0
        self._recorded_ms = 0

    def record(self, partition_count: int, now_ms: int) -> None:
        """Record a change of partitions. An exhausted strict quota raises THROTTLING_QUOTA_EXCEEDED."""
        bucket = self._sensor.bucket
        if self._is_strict and (wait_ms := bucket.throttle_ms(self.rate, now_ms)) is not None:
            self._wait_ms, self._recorded_ms = wait_ms, now_ms
            raise KafkaError(Code.THROTTLING_QUOTA_EXCEEDED, EXCEEDED)
        bucket.take(partition_count, self.rate, now_ms)
        self._sensor.rate.record(partition_count, now_ms)
        if not self._is_strict and (wait_ms := bucket.throttle_ms(self.rate, now_ms)) is not None:
            self._wait_ms, self._recorded_ms = wait_ms, now_ms

    def throttle_ms(self, now_ms: int) -> int:
        """How long the client must still be throttled after its last change."""
        return max(0, self._wait_ms - (now_ms - self._recorded_ms)) if self._wait_ms else 0


class MutationQuotaManager:
    def __init__(self, limits: Limits, windows: Windows) -> None:
        self.limits = limits
        self.sensors: Sensors[Sharing, MutationSensor] = Sensors(lambda: MutationSensor(windows))

    def quota_for(self, user: str, client_id: str, now_ms: int, *, is_strict: bool) -> MutationQuota | None:
        """The quota of a client's request; None if no client has a quota. As in Kafka, clients without a quota are measured,
        too."""
        if not self.limits.by_entity:
            return None
        sharing = self.limits.sharing(user, client_id)
        return MutationQuota(self.sensors.used(sharing, now_ms), self.rate(sharing), is_strict=is_strict)

    def rate(self, sharing: Sharing) -> float:
        """The quota of the clients in ``sharing``, in partitions per second."""
        limit = self.limits.limit(sharing)
        return UNLIMITED_RATE if limit is None else limit
