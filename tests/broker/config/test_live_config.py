"""Which components check and load a changed config."""

from __future__ import annotations

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.settings import BrokerConfig


class Part:
    """A component that loads one config, and adds its own name to the lists of checks and loads."""

    def __init__(self, name: str, checked: list[str], used: list[str]) -> None:
        self.reloads = frozenset({name})
        self._name, self._checked, self._used = name, checked, used

    def check(self, config: BrokerConfig) -> None:
        self._checked.append(self._name)

    def use(self, config: BrokerConfig) -> None:
        self._used.append(self._name)


def test_broker_component_reloads_only_configs_that_changed_or_were_set_again() -> None:
    config, checked, used = LiveConfig(BrokerConfig({})), list[str](), list[str]()
    config.parts += [Part(name, checked, used) for name in ("a", "b", "c")]
    by_call: list[set[str]] = []
    for dynamic, named in (({"a": "1", "b": "2"}, []), ({"a": "1", "b": "3"}, []), ({"a": "1"}, []), ({"a": "1"}, ["a"])):
        config.set_dynamic(dynamic, named)
        by_call.append(set(used))
        del used[:]
    assert by_call == [{"a", "b"}, {"b"}, {"b"}, {"a"}]
    config.check({"a": "1", "c": "2"}, ["c"])
    assert checked == ["c"]
