"""Sets and unsets configs of topics, brokers and groups."""

from __future__ import annotations

from typing import Literal

import msgspec

from ottla.client.admin.config_effects import effect_warnings, without_effect
from ottla.client.admin.topics import ConfigKind, get_configs, set_configs
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError
from ottla.console.actions.action import ActionClients, Effects, Name, option
from ottla.protocol.secrets import HIDDEN

Kind = Literal["topic", "broker", "group"]
DEFAULT_NAME = "default"
"""The name in ``ottla config`` that selects all brokers."""


class SetConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Set one config of a resource. The value None removes the resource's own value, so that the default applies.

    With the kind ``broker`` and an empty name, set the config for all brokers.
    """

    kind: Kind
    name: Name
    key: Name
    value: Name | None

    def preview(self, to: ActionClients) -> Effects:
        known = {config.name: config for config in get_configs(to.brokers, ConfigKind[self.kind.upper()], self.name)}
        config = known.get(self.key)
        if config is None and self.name:
            raise ClientError(f"unknown config {self.key!r} of {self.kind} {self.name!r}")
        if config is not None and config.read_only:
            raise ClientError(
                f"{self.key} cannot be changed while the broker runs; set it in the broker's properties and restart the broker"
            )
        is_secret = _is_sensitive(to.brokers, self.key) if config is None else config.sensitive
        before = HIDDEN if is_secret else "not set" if config is None else config.value
        value = HIDDEN if is_secret else self.value
        after = "the default" if self.value is None else value
        if self.name.startswith("-"):
            name = ["--", self.kind, self.name]
        else:
            name = [self.kind, self.name or DEFAULT_NAME]
        if self.value is None:
            command = ["config", "set", *option("--unset", self.key), *name]
        else:
            command = ["config", "set", *name, f"{self.key}={value}"]
        rows = [[self.key, before, after]]
        return Effects(command=command, warning=self._warning(to.brokers), columns=["config", "before", "after"], rows=rows)

    def _warning(self, brokers: BrokerConnections) -> str:
        if self.value is None:
            return ""
        return ". ".join(effect_warnings(without_effect(brokers, ConfigKind[self.kind.upper()], self.name, [self.key])))

    def run(self, to: ActionClients) -> Effects:
        set_configs(to.brokers, ConfigKind[self.kind.upper()], self.name, {self.key: self.value})
        change = "is at its default" if self.value is None else "was set"
        said = f"config {self.key} of {self.kind} {self.name or DEFAULT_NAME} {change}"
        return Effects(said=said, warning=self._warning(to.brokers))


def _is_sensitive(brokers: BrokerConnections, key: str) -> bool:
    """Whether a config is sensitive, according to the configs of one broker: a response about all brokers has only the configs that
    are set."""
    known = get_configs(brokers, ConfigKind.BROKER, str(brokers.nodes()[0].node_id))
    return any(config.name == key and config.sensitive for config in known)
