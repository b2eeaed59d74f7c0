"""The configuration in force: the settings of the start, overridden by dynamic configs that clients have set."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from ottla.broker.config.settings import BrokerConfig, Settings
from ottla.broker.config.topics import effective

log = structlog.get_logger("broker")


class LiveConfig:
    """Holds the configuration. Every change replaces ``current`` as a whole."""

    __slots__ = ("current", "on_change")

    def __init__(self, config: BrokerConfig) -> None:
        self.current = config
        self.on_change: list[Callable[[Settings], None]] = []
        """Called in order with the settings of each new configuration."""

    @property
    def settings(self) -> Settings:
        return self.current.settings

    def topic_config(self, name: str) -> str:
        """The value of a topic config for topics without one of their own. Implements `coordinator.server_config.ServerConfig`."""
        return effective(name, {}, self.current) or ""

    def set_dynamic(self, dynamic: Mapping[str, str]) -> None:
        """Put dynamic configs into force, after they were loaded or changed. A config that is not valid is logged and ignored."""
        self.current, refused = self.current.with_usable(dynamic)
        for reason in refused:
            log.error("dynamic_config_ignored", reason=reason)
        for changed in self.on_change:
            changed(self.current.settings)

    def log_lowered_factors(self) -> None:
        """Log the replication factors that were given and that one broker cannot have."""
        for name in ("default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
            if int(self.current.text(name) or 1) > 1:
                log.info("replication_factor_lowered", setting=name, given=self.current.text(name), used=1)
