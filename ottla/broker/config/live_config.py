"""The current configuration: the settings given at the start, overridden by dynamic configs that clients have set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import structlog

from ottla.broker.config.settings import BrokerConfig, Settings
from ottla.broker.config.topics import effective
from ottla.protocol.config_effects import LISTENER_PREFIX, RESOURCES

log = structlog.get_logger("broker")


MAX_REPORTED = 1_000
"""Maximum number of keys without effect that are logged. Clients may send any number of unknown broker keys."""


class Reconfigurable(Protocol):
    """A part of the server that reloads something, such as a key store, when its configs change (BrokerReconfigurable)."""

    @property
    def reloads(self) -> frozenset[str]:
        """The configs that this part loads. `check` and `use` are called only if a client deletes one of them, or sets it, even to
        its current value."""
        ...

    def check(self, config: BrokerConfig) -> None:
        """Raise `ConfigError` if this part cannot use a configuration."""
        ...

    def use(self, config: BrokerConfig) -> None:
        """Use a new configuration. If that fails, log the error and keep the previous configuration."""
        ...


class LiveConfig:
    """Holds the configuration. Every change replaces ``current`` as a whole."""

    __slots__ = ("_on_change", "_reported", "current", "parts")

    def __init__(self, config: BrokerConfig, on_change: Callable[[Settings], None] | None = None) -> None:
        """``on_change`` is called with the settings of each new configuration."""
        self.current = config
        self._reported: set[tuple[int, str]] = set()
        self._on_change = on_change
        self.parts: list[Reconfigurable] = []
        """The parts of the server to notify of changed configs."""

    @property
    def settings(self) -> Settings:
        return self.current.settings

    def topic_config(self, name: str) -> str:
        """The value of a topic config for topics that do not set it.

        Implements `coordinator.metadata.server_config.ServerConfig`.
        """
        return effective(name, {}, self.current) or ""

    def set_dynamic(self, dynamic: Mapping[str, str], named: Collection[str] = ()) -> None:
        """Apply dynamic configs after they were loaded or changed. An invalid config is logged and ignored.

        ``named``: the configs that a client has set, even to their previous values.
        """
        before = self.current.dynamic
        self.current, refused = self.current.with_usable(dynamic)
        current = self.current.dynamic
        names = {*named, *(name for name in {*before, *current} if before.get(name) != current.get(name))}
        for reason in refused:
            log.error("dynamic_config_ignored", reason=reason)
        if self._on_change is not None:
            self._on_change(self.current.settings)
        for part in self._affected(names):
            part.use(self.current)

    def check(self, dynamic: Mapping[str, str], names: Collection[str]) -> None:
        """Raise `ConfigError` if dynamic configs of this node cannot be used. ``names``: the configs of the request."""
        config = self.current.with_dynamic(dynamic)
        for part in self._affected(names):
            part.check(config)

    def _affected(self, names: Collection[str]) -> list[Reconfigurable]:
        return [part for part in self.parts if not part.reloads.isdisjoint(names)]

    def report_without_effect(self, resource_type: int, names: Collection[str]) -> None:
        """Log the configs without effect that a client has set, each key once."""
        if not names:
            return
        # Imported here because most brokers get no config from a client, and the import would slow down every start.
        from ottla.broker.config.effects import without_effect

        # A listener's key that no part reloads has an effect only at the start, so a change of the key is logged.
        of_listeners = (n for n in names if n.startswith(LISTENER_PREFIX) and not any(n in part.reloads for part in self.parts))
        for name in sorted({*without_effect(resource_type, names), *of_listeners}):
            if (resource_type, name) not in self._reported and len(self._reported) < MAX_REPORTED:
                self._reported.add((resource_type, name))
                log.warning("setting_ignored", name=name, resource=RESOURCES[resource_type])

    def log_lowered_factors(self) -> None:
        """Log configured replication factors above 1, which a single broker lowers to 1."""
        for name in ("default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
            if int(self.current.text(name) or 1) > 1:
                log.info("replication_factor_lowered", setting=name, given=self.current.text(name), used=1)
