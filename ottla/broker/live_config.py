"""The configuration in force: what the broker was started with, and over it what clients have set while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from ottla.broker.config.settings import BrokerConfig, Settings

log = structlog.get_logger("broker")


class LiveConfig:
    """``current`` is replaced as a whole by every change."""

    __slots__ = ("current", "on_change")

    def __init__(self, config: BrokerConfig) -> None:
        self.current = config
        self.on_change: list[Callable[[Settings], None]] = []
        """Called in order with the settings of each new configuration."""

    @property
    def settings(self) -> Settings:
        return self.current.settings

    def set_dynamic(self, dynamic: Mapping[str, str]) -> None:
        """Dynamic configs were loaded or changed: they are in force from here on. One that cannot be is left out, and logged."""
        self.current, refused = self.current.with_usable(dynamic)
        for reason in refused:
            log.error("dynamic_config_ignored", reason=reason)
        for changed in self.on_change:
            changed(self.current.settings)
