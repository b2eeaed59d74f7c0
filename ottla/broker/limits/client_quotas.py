"""Enforces the quotas of users, client ids and addresses (QuotaFactory.QuotaManagers).

Without quotas nothing is measured, and the modules that measure are not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.loop.env import Clock
from ottla.coordinator.metadata.client_quotas import ClientQuotas
from ottla.security.principal import INTERNAL, KafkaPrincipal

if TYPE_CHECKING:
    from ottla.broker.limits.quota_managers import QuotaManagers


class QuotaClient(Protocol):
    """The client that sent a request (`broker.apis.api.RequestContext`)."""

    @property
    def principal(self) -> KafkaPrincipal: ...

    @property
    def client_id(self) -> str: ...

    @property
    def version(self) -> int: ...


RecordMutation: TypeAlias = Callable[[int], None]
"""Records a number of created or deleted partitions. Raises THROTTLING_QUOTA_EXCEEDED if a strict quota is exhausted."""


class RequestQuota(Protocol):
    """The quota of one request that creates or deletes partitions."""

    @property
    def throttle_ms(self) -> int:
        """How long the client must be throttled from now on, in ms."""
        ...

    def record(self, partition_count: int) -> None:
        """Record created or deleted partitions (`RecordMutation`)."""
        ...


class Unlimited:
    """The `RequestQuota` of requests without a quota."""

    throttle_ms = 0

    def record(self, partition_count: int) -> None: ...


UNLIMITED = Unlimited()
unlimited = UNLIMITED.record


class ClientQuotaEnforcement:
    """The quotas of all clients. Without quotas ``entities`` is empty, and `managers` must not be used.

    Local clients (`INTERNAL`), such as ``ottla health``, have no quotas. Otherwise a default quota of users would apply to them.
    """

    __slots__ = ("_change_count", "_clock", "_config", "_managers", "_stored", "entities", "meter")

    def __init__(self, clock: Clock, config: LiveConfig, stored: ClientQuotas) -> None:
        self._clock = clock
        self._config = config
        self._stored = stored
        self._managers: QuotaManagers | None = None
        self._change_count = 0
        self.entities = stored.by_entity
        self.meter: Meter | None = None
        """Measures the time of the current request; None if no time is measured."""

    @property
    def managers(self) -> QuotaManagers:
        """The managers of all kinds of quotas, with the current limits."""
        managers = self._managers
        is_new = managers is None
        if managers is None:
            # Imported here, because most brokers have no quotas.
            from ottla.broker.limits.quota_managers import QuotaManagers

            managers = self._managers = QuotaManagers(self._clock, self._config.settings)
        elif self._change_count == self._stored.change_count:
            return managers
        self._change_count, changed = self._stored.change_count, self._stored.take_changed()
        managers.set_limits(self.entities, None if is_new else changed)
        return managers

    def mutation_quota(self, client: QuotaClient, *, strict_from: int) -> RequestQuota:
        """The quota of a request that creates or deletes partitions. It is strict (KIP-599) from API version ``strict_from`` on."""
        if not self.entities or client.principal == INTERNAL:
            return UNLIMITED
        is_strict = client.version >= strict_from
        return self.managers.mutation_quota(client.principal.name, client.client_id, is_strict=is_strict) or UNLIMITED

    def refuse_connection_after_ms(self, address: str, listener: str) -> int:
        """Count a new connection to a listener; returns after how many ms it must be closed, or 0 to accept it."""
        return self.managers.connections.record(address, listener, self._clock.steady_ms()) if self.entities else 0

    def fetch_throttle_ms(self, client: QuotaClient, size_bytes: int) -> int:
        """Record a consumer's fetch; returns the throttle time. If it is above 0, the client gets no data."""
        if client.principal == INTERNAL:
            return 0
        meter = self.meter
        used_ms = 0.0 if meter is None else meter.used_ms()
        return self.managers.fetched(client.principal.name, client.client_id, size_bytes, used_ms)

    def most_fetched_bytes(self, client: QuotaClient) -> float | None:
        """Bytes that a client may fetch at once if it has fetched nothing in the quota's window; None without a quota."""
        if not self.entities or client.principal == INTERNAL:
            return None
        return self.managers.fetch.most_in_window(client.principal.name, client.client_id)


class Meter(Protocol):
    """Measures the time that a request uses on the event loop."""

    def used_ms(self) -> float: ...
