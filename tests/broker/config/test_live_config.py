"""The parts that check and use dynamic configs: the configs of which they are informed."""

from __future__ import annotations

from collections.abc import Collection

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.settings import BrokerConfig


class Part:
    def __init__(self) -> None:
        self.checked: list[set[str]] = []
        self.used: list[set[str]] = []

    def check(self, config: BrokerConfig, names: Collection[str]) -> None:
        self.checked.append(set(names))

    def use(self, config: BrokerConfig, names: Collection[str]) -> None:
        self.used.append(set(names))

    def uses(self, name: str) -> bool:
        return True


def test_parts_get_the_names_of_changed_configs_and_of_those_set_to_equal_values() -> None:
    config, part = LiveConfig(BrokerConfig({})), Part()
    config.parts.append(part)
    config.set_dynamic({"a": "1", "b": "2"})
    config.set_dynamic({"a": "1", "b": "3"})
    config.set_dynamic({"a": "1"})
    config.set_dynamic({"a": "1"}, ["a"])
    assert part.used == [{"a", "b"}, {"b"}, {"b"}, {"a"}]
    config.check({"a": "1", "c": "2"}, ["c"])
    assert part.checked == [{"c"}]
