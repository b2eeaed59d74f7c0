"""The broker's code uses the value of every setting: tests search the source for settings that are read and then ignored."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import ottla
from ottla.broker.config.definitions import broker_definitions, topic_definitions
from ottla.broker.config.effects import ConfigEffect, effect_of
from ottla.broker.config.groups import group_definitions
from ottla.broker.config.settings import HONOURED
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.storage.config import LogConfig
from tests.broker.test_config_effects import is_bound
from tests.support.value_flow import Sources

SOURCES = Path(ottla.__file__).parent
ROOMS = ("broker", "cli", "control", "coordinator", "storage", "security", "registry", "http")
"""Packages whose code may read a setting."""
WORKS = ConfigEffect.WORKS
GROUP_TYPES = ("consumer.", "share.", "streams.")


@cache
def sources() -> Sources:
    paths = (path for room in ROOMS for path in sorted((SOURCES / room).rglob("*.py")))
    return Sources.of(path.read_text() for path in paths if path.parent.name != "messages")


def is_used(name: str) -> bool:
    """Whether the code uses the value of a config, read as an attribute or by its name as an argument."""
    flow = sources()
    without_type = next((name.removeprefix(kind) for kind in GROUP_TYPES if name.startswith(kind)), name)
    reads = [*flow.loads.get(name.replace(".", "_"), []), *flow.calls.get(name, []), *flow.calls.get(without_type, [])]
    return any(flow.is_used(read) for read in reads)


def is_used_by_another_name(name: str) -> bool:
    """Whether a topic or group config has the broker setting as its default, and is used."""
    of_topics = [d.name for d in topic_definitions().values() if name in d.synonyms and effect_of(TOPIC_RESOURCE, d.name) is WORKS]
    of_groups = [d.name for d in group_definitions().values() if name in d.synonyms and effect_of(GROUP_RESOURCE, d.name) is WORKS]
    return any(map(is_used, [*of_topics, *of_groups]))


def is_found(name: str) -> bool:
    return is_used(name) or is_bound(name) or is_used_by_another_name(name)


SETTINGS = sorted(name for name in HONOURED if name in broker_definitions() and effect_of(BROKER_RESOURCE, name) is WORKS)


BY_CONSTANT = {
    "log.dir",
    "offsets.topic.replication.factor",
    "sasl.jaas.config",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.server.callback.handler.class",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "ssl.endpoint.identification.algorithm",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
}
"""Settings that the code reads by a name from a constant or a table, which a search of the source does not find."""


@pytest.mark.parametrize("name", SETTINGS)
def test_every_broker_setting_is_read_by_code_that_uses_its_value(name: str) -> None:
    assert is_found(name), f"{name} is read and then ignored"


def test_every_broker_config_without_settings_field_is_read_by_code_that_uses_it() -> None:
    others = {name for name in broker_definitions() if effect_of(BROKER_RESOURCE, name) is WORKS and name not in HONOURED}
    assert {name for name in others if not is_found(name)} == BY_CONSTANT


def test_every_topic_config_is_read_by_code_that_uses_its_value() -> None:
    fields = [name.replace("_", ".") for name in LogConfig.__struct_fields__]
    assert [name for name in fields if name in topic_definitions() and not is_used(name)] == []


IGNORED = {
    "discarded": "settings.num_things",
    "unused name": "def f(settings):\n    x = settings.num_things\n    return 1",
    "unused attribute": "class C:\n    def g(self, settings):\n        self.x = settings.num_things",
    "unused parameter": "def g(count):\n    return 1\ndef f(settings):\n    g(settings.num_things)",
    "unused field": "class C:\n    count: int\ndef f(settings):\n    return C(count=settings.num_things).other",
    "passed around": "class C:\n    n: int\ndef f(settings):\n    c = C(n=settings.num_things)\n    return C(n=c.n).other",
}
USED = {
    "compared": "if settings.num_things > 1: pass",
    "parameter": "def g(count):\n    return count + 1\ndef f(settings):\n    g(settings.num_things)",
    "keyword": "def g(*, count):\n    return count + 1\ndef f(settings):\n    g(count=settings.num_things)",
    "field": "class C:\n    count: int\ndef f(settings):\n    return C(settings.num_things)\ndef h(c):\n    return c.count + 1",
    "attribute": "class C:\n    def __init__(self, s):\n        self.x = s.num_things\n    def g(self):\n        return self.x + 1",
    "function of Python": "print(settings.num_things)",
}


@pytest.mark.parametrize(("text", "expected"), [*((t, False) for t in IGNORED.values()), *((t, True) for t in USED.values())])
def test_source_check_detects_a_setting_whose_value_is_read_but_ignored(text: str, expected: bool) -> None:
    flow = Sources.of([text])
    assert [flow.is_used(read) for read in flow.loads["num_things"]] == [expected]
