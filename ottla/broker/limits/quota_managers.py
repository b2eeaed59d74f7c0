"""The state of each kind of quota of clients, by the broker's clock (QuotaFactory.QuotaManagers)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker.config.settings import Settings
from ottla.broker.loop.env import Clock
from ottla.coordinator.metadata.client_quotas import Entity
from ottla.coordinator.quota.client_quota_manager import ClientQuotaManager
from ottla.coordinator.quota.connection_rates import ConnectionRates
from ottla.coordinator.quota.mutation_quota import MutationQuota, MutationQuotaManager
from ottla.coordinator.quota.precedence import Limits
from ottla.coordinator.quota.sampled import Windows
from ottla.protocol.client_quotas import IP

PRODUCE, FETCH, REQUEST, MUTATION = "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"
"""The names of all kinds of client quotas in Kafka."""
PERCENT_PER_MS = 0.1
"""1 ms of the event loop per second, in percent, the unit of ``request_percentage``. 100 % is the whole event loop, in Kafka one
thread."""


class LimitedRequest:
    """The quota of one request that creates or deletes partitions (`client_quotas.RequestQuota`)."""

    __slots__ = ("_clock", "_quota")

    def __init__(self, clock: Clock, quota: MutationQuota) -> None:
        self._clock = clock
        self._quota = quota

    def record(self, partition_count: int) -> None:
        self._quota.record(partition_count, self._clock.steady_ms())

    @property
    def throttle_ms(self) -> int:
        return self._quota.throttle_ms(self._clock.steady_ms())


class QuotaManagers:
    """One manager per kind of quota. ``user`` is the name of a principal; times are in ms."""

    def __init__(self, clock: Clock, settings: Settings) -> None:
        self._clock = clock
        windows = Windows(count=settings.quota_window_num, size_ms=settings.quota_window_size_seconds * 1_000)
        of_controller = Windows(
            count=settings.controller_quota_window_num, size_ms=settings.controller_quota_window_size_seconds * 1_000
        )
        self.produce = ClientQuotaManager(Limits({}), windows)
        self.fetch = ClientQuotaManager(Limits({}), windows)
        self.request = ClientQuotaManager(Limits({}), windows, max_throttle_ms=windows.size_ms)
        self.mutation = MutationQuotaManager(Limits({}), of_controller)
        self.connections = ConnectionRates(windows)
        self._managers: dict[str, ClientQuotaManager | MutationQuotaManager] = {
            PRODUCE: self.produce,
            FETCH: self.fetch,
            REQUEST: self.request,
            MUTATION: self.mutation,
        }
        self._known: dict[Entity, None] = {}

    def set_limits(self, by_entity: Mapping[Entity, Mapping[str, float]], changed: Iterable[Entity] | None = None) -> None:
        """Apply the quotas of ``changed`` entities, by default of all. Recorded usage of clients still counts."""
        for entity in {**self._known, **by_entity} if changed is None else changed:
            values = by_entity.get(entity, {})
            if values:
                self._known[entity] = None
            else:
                self._known.pop(entity, None)
            if entity[0][0] == IP:
                self.connections.set(entity[0][1], values.get(CONNECTIONS))
                continue
            for key, manager in self._managers.items():
                manager.limits.set(entity, values.get(key))

    def produced(self, user: str, client_id: str, size_bytes: int, used_ms: float | None) -> int:
        """Record a Produce request; returns the throttle time. ``used_ms`` is None with acks=0, whose time does not count."""
        return self._longer(self.produce, user, client_id, self._recorded(self.produce, user, client_id, size_bytes), used_ms)

    def fetched(self, user: str, client_id: str, size_bytes: int, used_ms: float) -> int:
        """Record a consumer's fetch; returns the throttle time. If it is above 0, no data is sent, and its bytes do not count."""
        wait_ms = self.share_fetched(user, client_id, size_bytes, used_ms)
        if wait_ms and self.fetch.limits.by_entity:
            self.fetch.unrecord(user, client_id, size_bytes, self._clock.steady_ms())
        return wait_ms

    def share_fetched(self, user: str, client_id: str, size_bytes: int, used_ms: float) -> int:
        """Record a fetch of a share group's member, which gets its records even if throttled; returns the throttle time."""
        return self._longer(self.fetch, user, client_id, self._recorded(self.fetch, user, client_id, size_bytes), used_ms)

    def handled(self, user: str, client_id: str, used_ms: float, mutation_ms: int) -> int:
        """Record any other request; returns the throttle time. ``mutation_ms`` is the throttle time for partition changes."""
        return self._longer(self.mutation, user, client_id, mutation_ms, used_ms)

    def _longer(
        self,
        manager: ClientQuotaManager | MutationQuotaManager,
        user: str,
        client_id: str,
        wait_ms: int,
        used_ms: float | None,
    ) -> int:
        """Record a request's time. Returns the longer of its throttle time and ``wait_ms``, and records the longer time in the
        metrics of the corresponding quota."""
        request_ms = 0
        if used_ms is not None:
            request_ms = self._recorded(self.request, user, client_id, used_ms * PERCENT_PER_MS)
        longer_ms = max(wait_ms, request_ms)
        if longer_ms:
            whose = manager if wait_ms > request_ms else self.request
            now_ms = self._clock.steady_ms()
            whose.sensors.used(whose.limits.sharing(user, client_id), now_ms).throttle_times.record(longer_ms, now_ms)
        return longer_ms

    def mutation_quota(self, user: str, client_id: str, *, is_strict: bool) -> LimitedRequest | None:
        """The quota of a request that changes partitions; None if no client has such a quota."""
        quota = self.mutation.quota_for(user, client_id, self._clock.steady_ms(), is_strict=is_strict)
        return None if quota is None else LimitedRequest(self._clock, quota)

    def _recorded(self, manager: ClientQuotaManager, user: str, client_id: str, value: float) -> int:
        # As in Kafka, usage is not measured if no client has this kind of quota.
        return manager.record(user, client_id, value, self._clock.steady_ms()) if manager.limits.by_entity else 0
